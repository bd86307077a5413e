"""Normalises Unicode text in sections of bounded length, because Python's normalisation can take quadratic time."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Literal

NormalForm = Literal["NFC", "NFD", "NFKC", "NFKD"]
_SECTION = 128


def normal_sections(form: NormalForm, text: str) -> Iterator[str]:
    """Yield the 128-character sections of `text` one by one, each in the Unicode normal form `form`, in linear time.

    Joined, the sections are the normal form of the text, but for characters at their ends: those may stay apart that
    compose, and marks may keep their order.
    """
    for start in range(0, len(text), _SECTION):
        yield unicodedata.normalize(form, text[start : start + _SECTION])
