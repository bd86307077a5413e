"""Normalises text in sections, because Python sorts a run of combining marks by the square of its length."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Literal

NormalForm = Literal["NFC", "NFD", "NFKC", "NFKD"]
_SECTION = 128


def normal_sections(form: NormalForm, text: str) -> Iterator[str]:
    """Yield a text's sections of 128 characters in a normal form (Unicode Standard Annex 15), in linear time.

    Joined, they are the normal form of the text, but for characters at their ends: those may stay apart that compose,
    and marks may keep their order.
    """
    for start in range(0, len(text), _SECTION):
        yield unicodedata.normalize(form, text[start : start + _SECTION])
