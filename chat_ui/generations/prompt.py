"""What a model is told of a conversation: a branch of it as turns. Knows no template and no tokens."""

from __future__ import annotations

from collections.abc import Sequence

from chat_ui.generations.engine import Turn
from chat_ui.history.records import Attachment, Message, Role


def turns_of(branch: Sequence[Message]) -> list[Turn]:
    """The turns of a branch. What is empty is left out, and two of one side in a row are one: templates want that."""
    turns: list[Turn] = []
    for message in branch:
        text = question_text(message) if message.role is Role.USER else message.text
        if not text.strip():
            continue
        if turns and turns[-1].role is message.role:
            text = f"{turns.pop().text}\n\n{text}"
        turns.append(Turn(message.role, text))
    return turns


def question_text(message: Message) -> str:
    """A question with its files before it."""
    return "\n\n".join([*(_file(each) for each in message.attachments), message.text])


def _file(attachment: Attachment) -> str:
    name = " ".join(attachment.name.replace('"', "'").split())
    return f'<file name="{name}">\n{attachment.text}\n</file>'
