"""Folds texts for comparison (no case, diacritics, apostrophes); makes patterns match plain Polish letters."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

_APOSTROPHES = str.maketrans("", "", "'’")


def folded(name: str) -> str:
    """Return a name without case, diacritics and apostrophes, for comparison: "Łódź" and "lodz" become equal."""
    spread = unicodedata.normalize("NFKD", name.casefold().replace("ł", "l"))
    plain = "".join(each for each in spread if not unicodedata.combining(each))
    return plain.translate(_APOSTROPHES).strip()


def without_diacritics(text: str) -> str:
    """Return a text in lower case without diacritics, one character for each, so that offsets stay the same."""
    return "".join(_plain_character(each) for each in text).replace("’", "'")


def lenient_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a regular expression whose Polish letters match also without diacritics, as many people type."""
    found: list[str] = []
    in_class = escaped = False
    for character in pattern:
        plain = _plain_character(character) if character in "ąćęłńóśźż" else ""
        if escaped or not plain:
            found.append(character)
        else:
            found.append(character + plain if in_class else f"[{character}{plain}]")
        if not escaped:
            in_class = character == "[" or (in_class and character != "]")
        escaped = not escaped and character == "\\"
    return re.compile("".join(found), flags)


@cache
def _plain_character(character: str) -> str:
    plain = unicodedata.normalize("NFD", character.lower().replace("ł", "l"))[:1]
    return plain or character
