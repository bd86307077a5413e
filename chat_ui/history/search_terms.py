"""Extracts search terms from texts and queries (words without case, accents and strokes), and excerpts of matches.

`Łódź` is found as `lodz`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from chat_ui.history.limits import MAX_QUERY_WORDS, MAX_TERM_CHARS, MAX_TERMS
from runtime.unicode_sections import normal_sections

_STROKES = str.maketrans({"ł": "l", "Ł": "l", "ø": "o", "Ø": "o", "đ": "d", "Đ": "d", "ħ": "h", "ı": "i", "æ": "ae"})
"""Letters that Unicode normalisation does not decompose."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_WORD = re.compile(r"\w+")
EXCERPT = 60
"""Characters of an excerpt before and after the match."""


def normalised(text: str) -> str:
    """Return a text case-folded and without accents and strokes, so that its words compare equal in search."""
    decomposed = "".join(normal_sections("NFKD", text.translate(_STROKES).casefold()))
    return _NOT_ASCII.sub(_uncombined, decomposed)


def _uncombined(letter: re.Match[str]) -> str:
    return "" if unicodedata.combining(letter[0]) else letter[0]


def search_terms(texts: Iterable[str]) -> list[str]:
    """Return the distinct normalised words of a conversation's texts by first appearance, at most `MAX_TERMS`."""
    found: dict[str, None] = {}
    for text in texts:
        for match in _WORD.finditer(normalised(text)):
            found[match[0][:MAX_TERM_CHARS]] = None
            if len(found) == MAX_TERMS:
                return list(found)
    return list(found)


def query_words(query: str) -> list[str]:
    """Return the normalised words of a search query in order, at most `MAX_QUERY_WORDS`."""
    return [match[:MAX_TERM_CHARS] for match in _WORD.findall(normalised(query[:1000]))][:MAX_QUERY_WORDS]


def excerpt(text: str, words: Iterable[str]) -> str | None:
    """Return an excerpt of `text` around the first occurrence of a word, as one line; `None` if no word occurs.

    If several of the normalised `words` occur, the one listed first is shown, wherever in the text it is.
    """
    for word in words:
        if (match := re.search(accent_insensitive_pattern(word), text, re.IGNORECASE)) is not None:
            start, end = max(0, match.start() - EXCERPT), min(len(text), match.end() + EXCERPT)
            shown = " ".join(text[start:end].split())
            return f"{'…' if start else ''}{shown}{'…' if end < len(text) else ''}"
    return None


def accent_insensitive_pattern(word: str) -> str:
    """Return a regular expression that finds a normalised word in original texts: it also accepts accented letters."""
    return "".join(f"[{_FORMS[letter]}]" if letter in _FORMS else re.escape(letter) for letter in word)


def _forms() -> dict[str, str]:
    forms: dict[str, str] = {}
    for code in range(0x61, 0x250):
        letter = chr(code)
        if letter.isalpha() and len(base := normalised(letter)) == 1 and base.isascii():
            forms[base] = forms.get(base, "") + letter
    return forms


_FORMS = _forms()
