"""Reads labelled prompts in JSON lines, `{"lang", "text", "tool"}`, which train and measure the choice of tools.

`training.jsonl` is what the classifier learns from. Labels are `image`, `weather`, `wikipedia`, `math`, `documents` and
`none`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from assistant.routing.language import Language
from assistant.turn import Turn

Label = Literal["image", "weather", "wikipedia", "math", "documents", "none"]
T = TypeVar("T")
LABELS: tuple[Label, ...] = ("image", "weather", "wikipedia", "math", "documents", "none")
TRAINING = Path(__file__).with_name("training.jsonl")


class InvalidPrompts(Exception):
    """Raised if a file of labelled prompts can't be read: a line is no JSON, lacks a field, or has an unknown label."""


class _Message(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant"]
    content: str


class LabelledPrompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question with the tool that it needs."""

    lang: Language
    text: str
    tool: Label
    history: list[_Message] = []

    @property
    def turns(self) -> list[Turn]:
        """The turns before the labelled question, oldest first."""
        return [Turn(each.role, each.content) for each in self.history]


def read_prompts(path: Path = TRAINING) -> list[LabelledPrompt]:
    """Read a file of labelled prompts in JSON lines; empty lines are skipped. The default are the training prompts.

    Raises:
        InvalidPrompts: a line is invalid; the text names its number.
        OSError: the file can't be read.
    """
    return read_lines(path, LabelledPrompt)


def read_lines(path: Path, kind: type[T]) -> list[T]:
    """Read a file of JSON lines, each as an object of the type `kind`; empty lines are skipped.

    Raises:
        InvalidPrompts: a line is invalid; the text names its number.
        OSError: the file can't be read.
    """
    found: list[T] = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found.append(msgspec.json.decode(line, type=kind))
        except msgspec.DecodeError as error:
            raise InvalidPrompts(f"{path.name}, line {number}: {error}") from error
    return found
