"""Brings text to the normal form that routing's patterns match (lower case, no diacritics), and cuts long text."""

from __future__ import annotations

import re
import unicodedata

from runtime.unicode_sections import normal_sections

MAX_CHARACTERS = 2_000
"""Characters of a text that are matched and classified, because some patterns take time by the square of them."""

_WITHOUT_DECOMPOSITION = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "’": "'", "−": "-"})


def plain(text: str) -> str:
    """Return `text` in the normal form for matching: lower case, no diacritics (also Polish), single spaces."""
    # NFD keeps superscripts: "x²" must not become "x2".
    decomposed = "".join(normal_sections("NFD", text.lower().translate(_WITHOUT_DECOMPOSITION)))
    return " ".join("".join(each for each in decomposed if not unicodedata.combining(each)).split())


def without_match(pattern: re.Pattern[str], text: str) -> str:
    """Return `text` without the words that `pattern` matches; the pattern is matched against `plain(text)`.

    Words are removed by their position, since `plain` keeps the number of words.
    """
    words, normal = text.split(), plain(text)
    kept = [True] * len(words)
    for match in pattern.finditer(normal):
        first = normal[: match.start()].count(" ")
        last = normal[: match.end()].rstrip().count(" ")
        kept[first : last + 1] = [False] * (last + 1 - first)
    return " ".join(word for word, keep in zip(words, kept, strict=True) if keep)


def cut(text: str, most: int = MAX_CHARACTERS) -> str:
    """Return `text`; if it has more than `most` characters, its first and last `most // 2` with a space between."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} {text[-half:]}"
