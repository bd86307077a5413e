"""Gates: a request is held in the phase that its tag names, by whichever process works at it, until it is opened.

A tag is a part of the prompt, so that engines and tools in other processes read it. Files say what was opened.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

FOLDER_VARIABLE = "KILLS_GATES"
_TAG = re.compile(r"#([a-z]\d{4})-(\w+)-(\w+)#")


@dataclass(frozen=True)
class Tag:
    """Number of a request, the phase in which it is held (or `none`), and the tool that it needs."""

    number: str
    phase: str
    tool: str

    def __str__(self) -> str:
        """All tags of a tool have the same length, so that their prompts have the same tokens."""
        return f"#{self.number}-{self.phase:_<10}-{self.tool}#"


def tag_in(text: str) -> Tag | None:
    """Return the first tag in a text."""
    found = _TAG.search(text)
    return None if found is None else Tag(found[1], found[2].rstrip("_"), found[3])


@dataclass(frozen=True)
class Gates:
    """The gates of all requests, in a folder that all processes see."""

    folder: Path

    @classmethod
    def of_environment(cls) -> Gates:
        """Return those of the test that started this process."""
        return cls(Path(os.environ[FOLDER_VARIABLE]))

    def is_held(self, tag: Tag, phase: str) -> bool:
        """Return whether a request has to wait in a phase; the test learns that it has arrived there."""
        if tag.phase != phase or (self.folder / f"{tag.number}.open").exists():
            return False
        arrived = self.folder / f"{tag.number}.{os.getpid()}"
        if not arrived.exists():
            arrived.write_text(str(time.time()))
        return True

    def arrived(self, tag: Tag) -> int:
        """Return how many processes have held the request."""
        return len([each for each in self.folder.glob(f"{tag.number}.*") if each.suffix[1:].isdigit()])

    def open(self, tag: Tag) -> None:
        """Let the request pass for good."""
        (self.folder / f"{tag.number}.open").touch()
