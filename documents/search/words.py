"""Words of texts as terms of an index: in lower case, without diacritics, and reduced to the stems of their language.

Polish has stems by Snowball's algorithm, as has English; every other text is treated as English, whose stemmer leaves
most words of other languages as they are. A passage has the stems of the language that its function words show; a
word of a query has those of both, for a query is too short to tell.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import Stemmer

VERSION = "1"
"""Version of the terms: an index that was built with other ones must be built anew."""
MAX_TERM = 64
"""Characters of a term; longer words are cut off."""
MAX_QUERY_WORDS = 64
"""Different words of a query that are searched for."""

_WORD = re.compile(r"[^\W_]+")
_POLISH_LETTERS = re.compile("[ąćęłńóśźż]", re.IGNORECASE)
_POLISH_WORDS = "i w z na do się nie jest że o od po za przez dla oraz lub jak są ale być jego jej"
_ENGLISH_WORDS = "the of and in is that for it as with on by this be are or an from at which not"
_FUNCTION_WORDS = dict.fromkeys(_POLISH_WORDS.split(), 1) | dict.fromkeys(_ENGLISH_WORDS.split(), -1)
"""Function words of Polish (1) and English (-1), which differ."""
_ENGLISH, _POLISH = Stemmer.Stemmer("english", 0), Stemmer.Stemmer("polish", 0)
_SAMPLE = 400
"""Words of a text by which its language is told."""


def terms_of(text: str) -> list[str]:
    """Return the terms of a passage, in its order."""
    words = _WORD.findall(text)
    stem = _polish if is_polish(words) else _english
    return [stem(word) for word in words]


def query_terms(text: str) -> list[frozenset[str]]:
    """Return for each different word of a query the terms by which a passage may have it."""
    alternatives = (frozenset((_polish(word), _english(word))) for word in _WORD.findall(text))
    return list(dict.fromkeys(alternatives))[:MAX_QUERY_WORDS]


def is_polish(words: list[str]) -> bool:
    """Return whether a text with these words is more likely Polish than English."""
    sample = words[:_SAMPLE]
    letters = sum(1 for word in sample if _POLISH_LETTERS.search(word))
    return letters + sum(_FUNCTION_WORDS.get(word.lower(), 0) for word in sample) > 0


@lru_cache(maxsize=100_000)
def _english(word: str) -> str:
    return _folded(_ENGLISH.stemWord(word.lower()))


@lru_cache(maxsize=100_000)
def _polish(word: str) -> str:
    return _folded(_POLISH.stemWord(word.lower()))


def _folded(term: str) -> str:
    """Return a term without diacritics; ł has no decomposition."""
    decomposed = unicodedata.normalize("NFKD", term.replace("ł", "l"))
    return "".join(each for each in decomposed if not unicodedata.combining(each))[:MAX_TERM]
