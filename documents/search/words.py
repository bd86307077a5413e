"""Words of texts as terms of an index: in lower case, without diacritics, and reduced to stems.

A word has up to three terms: its stems by Snowball's algorithms for Polish and for English, as texts mix languages and
a short one does not show which it is in; and the Polish stem of its lemma by a dictionary, as Polish stems change
(dzień, dnia). Two forms of a word are found by each other if they have a term in common. Function words of a query
(what, ile) are not searched for: documents that answer questions have them more rarely than their weight says.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

import Stemmer
from simplemma.strategies.dictionaries.stream_dictionary_factory import StreamDictionaryFactory

VERSION = "1"
"""Version of the terms: an index that was built with other ones must be built anew."""
MAX_TERM = 64
"""Characters of a term; longer words are cut off."""
MAX_QUERY_WORDS = 64
"""Different words of a query that are searched for."""

_ENGLISH_FUNCTION_WORDS = """
a about also am an and any are as at be because been being by can could did do does each for from get had has have
having he her here hers him his how i if in into is it its just many me might much must my of on or our ours shall
she should so some such than that the their theirs them then there these they this those to until us was we were
what when where which while who whom whose why will with would you your yours
explain please tell write
"""
_POLISH_FUNCTION_WORDS = """
aby albo ale ani bez bo by być był była było były będzie będą bądź co coś czego czemu czy czyj czyja czyje czym dla
dlaczego gdy gdzie ich ile ilu im ja jak jaka jaką jaki jakich jakie jakiego jakiej jakim jakimi jako je jego jej
jemu jest jestem jeszcze jeśli jeżeli już każda każde każdy kiedy kim kogo komu kto która którą które którego której
których który którym którymi lecz lub ma mają mam mi mnie moja moje moją mój mojego mojej może mogą mogę można mu
między musi muszą muszę na nad nam nas nasz nasza nasze naszej nich nie nim niż od ona oni oraz po pod podczas przez
przy są się skąd swoje swój ta tak taki także tam te tego tej też tych tym u w według więc wy z za ze że żeby
napisz o podaj powiedz proszę wyjaśnij
"""
FUNCTION_WORDS = frozenset((_ENGLISH_FUNCTION_WORDS + _POLISH_FUNCTION_WORDS).split())
"""Words of questions and sentences in English and Polish that say nothing about what is searched for."""

_MAX_WORD = 4 * MAX_TERM
"""Characters of a word from which terms are made: no longer word is remembered."""
_WORD = re.compile(r"[^\W_]+")
_POLISH, _ENGLISH = Stemmer.Stemmer("polish", 0), Stemmer.Stemmer("english", 0)


def terms_of(text: str) -> list[str]:
    """Return the terms of the words of a passage, in its order."""
    return [term for word in _WORD.findall(text) for term in _terms(word[:_MAX_WORD])]


def query_terms(text: str) -> list[frozenset[str]]:
    """Return the terms of each of the first words of a query; forms of the same word are one.

    Function words are left out, unless the query has no others; words in capitals (IT, WHO) are none.
    """
    return _query_terms(text, FUNCTION_WORDS) or _query_terms(text, frozenset())


def _query_terms(text: str, left_out: frozenset[str]) -> list[frozenset[str]]:
    found: list[frozenset[str]] = []
    read: set[str] = set()
    for word in (each[0][:_MAX_WORD] for each in _WORD.finditer(text)):
        if word in read or (word.lower() in left_out and (len(word) == 1 or not word.isupper())):
            continue
        read.add(word)
        terms = frozenset(_terms(word))
        same = [each for each in found if each & terms]
        found = [*(each for each in found if each not in same), terms.union(*same)]
        if len(found) == MAX_QUERY_WORDS:
            break
    return found


@lru_cache(maxsize=200_000)
def _terms(word: str) -> tuple[str, ...]:
    lower = word.lower()
    lemmas = _polish_lemmas()
    lemma = lemmas.get(lower) or lemmas.get(word.capitalize()) or lower  # names have capitals in the dictionary
    stems = _POLISH.stemWord(lower), _POLISH.stemWord(lemma.lower()), _ENGLISH.stemWord(lower)
    return tuple(dict.fromkeys(map(_folded, stems)))


@lru_cache(maxsize=1)
def _polish_lemmas() -> Mapping[str, str]:
    """Return the lemmas of Polish word forms, which the first use reads in seconds, and which take 50 MiB of memory."""
    return StreamDictionaryFactory().get_dictionary("pl")


def _folded(term: str) -> str:
    """Return a term without diacritics; ł has no decomposition."""
    if term.isascii():
        return term[:MAX_TERM]
    decomposed = unicodedata.normalize("NFKD", term.replace("ł", "l"))
    return "".join(each for each in decomposed if not unicodedata.combining(each))[:MAX_TERM]
