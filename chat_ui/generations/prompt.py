"""Converts a branch of a conversation to the turns that a model gets as its prompt."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from chat_ui.generations.model_client import Turn
from chat_ui.history.records import AttachedImage, Attachment, Message, Role, State
from chat_ui.history.steps import StepState
from stored_objects.images.prompt_limits import MAX_IMAGES, MAX_TOTAL_BYTES, MAX_TOTAL_PIXELS


def prompt_turns(branch: Sequence[Message], present: Collection[str] = ()) -> list[Turn]:
    """Convert a branch of a conversation to a prompt's turns, with alternating roles, as chat templates need them.

    Empty messages are dropped, and neighbours of the same role merged. A question's turn includes the text of its
    attached files, and its images: of all images in `present` (blob ids that can be read) the latest that fit a prompt.
    Others are replaced by a note with their name. An answer of steps alone, such as a drawn image, is a turn without
    text, so that its question is not read as a part of the next one.
    """
    shown = _latest_images(branch, present)
    turns: list[Turn] = []
    for message in branch:
        text = question_with_files(message) if message.role is Role.USER else message.text
        if not text.strip() and not _answered_by_tool(message):
            continue
        images = tuple(each.blob for each in message.images if each in shown)
        text = "\n\n".join([*(_note(each) for each in message.images if each not in shown), text])
        if turns and turns[-1].role is message.role:
            earlier = turns.pop()
            images, text = earlier.images + images, f"{earlier.text}\n\n{text}"
        turns.append(Turn(message.role, text, images))
    return turns


def _latest_images(branch: Sequence[Message], present: Collection[str]) -> Collection[AttachedImage]:
    """Return the latest of a branch's readable images that are together within the limits of a prompt."""
    chosen: list[AttachedImage] = []
    for image in (each for message in reversed(branch) for each in message.images if each.blob in present):
        chosen.append(image)
        if (
            len(chosen) > MAX_IMAGES
            or sum(each.size for each in chosen) > MAX_TOTAL_BYTES
            or sum(each.pixels for each in chosen) > MAX_TOTAL_PIXELS
        ):
            return chosen[:-1]
    return chosen


def _answered_by_tool(message: Message) -> bool:
    steps = [each for each in message.steps if each.kind == "tool"]
    return message.state is State.DONE and any(each.state is StepState.DONE for each in steps)


def question_with_files(message: Message) -> str:
    """Return the text of a question for a prompt: the texts of its attached files, then its own."""
    return "\n\n".join([*(_file(each) for each in message.attachments), message.text])


def _note(image: AttachedImage) -> str:
    return f"(The image {' '.join(image.name.split())} is not shown any more.)"


def _file(attachment: Attachment) -> str:
    name = " ".join(attachment.name.replace('"', "'").split())
    return f'<file name="{name}">\n{attachment.text}\n</file>'
