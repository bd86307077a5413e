"""Converts a branch of a conversation to the turns that a model gets as its prompt."""

from __future__ import annotations

from collections.abc import Sequence

from chat_ui.generations.model_client import Turn
from chat_ui.history.records import Attachment, Message, Role


def prompt_turns(branch: Sequence[Message]) -> list[Turn]:
    """Return a branch as turns of alternating roles, as chat templates need: drop empty messages, merge equal roles.

    A question's turn includes the text of its attached files.
    """
    turns: list[Turn] = []
    for message in branch:
        text = question_with_files(message) if message.role is Role.USER else message.text
        if not text.strip():
            continue
        if turns and turns[-1].role is message.role:
            text = f"{turns.pop().text}\n\n{text}"
        turns.append(Turn(message.role, text))
    return turns


def question_with_files(message: Message) -> str:
    """Return a question's text, preceded by the texts of its attached files."""
    return "\n\n".join([*(_file(each) for each in message.attachments), message.text])


def _file(attachment: Attachment) -> str:
    name = " ".join(attachment.name.replace('"', "'").split())
    return f'<file name="{name}">\n{attachment.text}\n</file>'
