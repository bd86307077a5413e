"""Finds the citations in an answer's text: the numbers in brackets of passages that a file search has found."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Source = Mapping[str, Any]
"""A passage that an answer can cite: the fields of its citation, among them the id and the name of its file."""

_MARKER = re.compile(r"\[(\d{1,3}(?:\s?,\s?\d{1,3}){0,7})\]")


def citations(text: str, sources: Sequence[Source]) -> list[dict[str, Any]]:
    """Return the annotations of a text: of each citation its source, and the offset at which the citation is.

    Numbers that no passage has are left as they are.
    """
    return [
        {"type": "file_citation", "index": marker.start(), **sources[number - 1]}
        for marker in _MARKER.finditer(text)
        for number in map(int, marker[1].split(","))
        if 1 <= number <= len(sources)
    ]
