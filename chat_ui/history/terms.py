"""Words that conversations are found by: case, accents and the strokes of Polish letters make no difference."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from chat_ui.history.bounds import LONGEST_TERM, MOST_TERMS, MOST_WORDS

_STROKES = str.maketrans({"ł": "l", "Ł": "l", "ø": "o", "Ø": "o", "đ": "d", "Đ": "d", "ħ": "h", "ı": "i", "æ": "ae"})
"""Letters that Unicode does not take apart."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_WORD = re.compile(r"\w+")
EXCERPT = 60
"""Characters before and behind what was found."""


def folded(text: str) -> str:
    """Text without what makes no difference."""
    taken_apart = unicodedata.normalize("NFKD", text.translate(_STROKES).casefold())
    return _NOT_ASCII.sub(_uncombined, taken_apart)


def _uncombined(letter: re.Match[str]) -> str:
    return "" if unicodedata.combining(letter[0]) else letter[0]


def terms_of(texts: Iterable[str]) -> list[str]:
    """The different words of texts, in order, at most `MOST_TERMS`."""
    found: dict[str, None] = {}
    for text in texts:
        for match in _WORD.finditer(folded(text)):
            found[match[0][:LONGEST_TERM]] = None
            if len(found) == MOST_TERMS:
                return list(found)
    return list(found)


def words_of(query: str) -> list[str]:
    """The words of a search, the last one last: it may be the beginning of one."""
    return [match[:LONGEST_TERM] for match in _WORD.findall(folded(query[:1000]))][:MOST_WORDS]


def excerpt(text: str, words: Iterable[str]) -> str | None:
    """Some of a text around the first of `words` that is in it, on one line; `None`: none is."""
    for word in words:
        if (match := re.search(pattern_of(word), text, re.IGNORECASE)) is not None:
            start, end = max(0, match.start() - EXCERPT), min(len(text), match.end() + EXCERPT)
            shown = " ".join(text[start:end].split())
            return f"{'…' if start else ''}{shown}{'…' if end < len(text) else ''}"
    return None


def pattern_of(word: str) -> str:
    """A regular expression that finds a folded word in text that is not: each letter with all its forms."""
    return "".join(f"[{_FORMS[letter]}]" if letter in _FORMS else re.escape(letter) for letter in word)


def _forms() -> dict[str, str]:
    forms: dict[str, str] = {}
    for code in range(0x61, 0x250):
        letter = chr(code)
        if letter.isalpha() and len(base := folded(letter)) == 1 and base.isascii():
            forms[base] = forms.get(base, "") + letter
    return forms


_FORMS = _forms()
