"""Comparison of names and words: without case, diacritics and apostrophes, as geocoders and encyclopedias compare."""

from __future__ import annotations

import unicodedata
from functools import cache

_APOSTROPHES = str.maketrans("", "", "'’")


def folded(name: str) -> str:
    """Return a name without case, diacritics and apostrophes: "Łódź" and "lodz" are equal so."""
    spread = unicodedata.normalize("NFKD", name.casefold().replace("ł", "l"))
    plain = "".join(each for each in spread if not unicodedata.combining(each))
    return plain.translate(_APOSTROPHES).strip()


def without_diacritics(text: str) -> str:
    """Return a text in lower case without diacritics, with a character for each character: offsets stay the same."""
    return "".join(_plain_character(each) for each in text).replace("’", "'")


@cache
def _plain_character(character: str) -> str:
    plain = unicodedata.normalize("NFD", character.lower().replace("ł", "l"))[:1]
    return plain or character
