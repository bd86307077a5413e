"""Recognises whether a question is in English or in Polish, by its function words and letters.

Questions are short, so that a general recognition of languages, which counts letters, guesses.
"""

from __future__ import annotations

import re
from typing import Literal

Language = Literal["en", "pl"]

_ENGLISH_WORDS = """
    a about above after again all allowed also am an and any anything are as at be because been before being below
    between both but by can could did do does doing done during each every explain few find for from get give
    had has have having he hello help her here hers hi him his how i if in into is it its just keep know last
    like list make many may me mean means might more most much must my need no nor not of off often on once one
    only or other our out over own please say says shall she show should so some such take tell than thank
    thanks that the their them then there these they this those to too under until up us use very want was we
    were what when where whether which while who whom whose why will with would write yes you your
"""
_POLISH_WORDS = """
    a aby albo ale ani az bardzo bedzie bede beda bez bo by byc byl byla bylo byly ci cie co cos cos czego czemu
    czesc czy czyj czyja czyje czym dla do dlaczego dlugo dziekuje gdy gdzie go i ich ile ilu im inny ja jak
    jaka jaki jakich jakie jakiej jakim jako je jeden jego jej jesli jest jestem jeszcze juz kazdy kiedy kim
    kogo komu kto ktora ktore ktorego ktorej ktory ktorych ktorym ku lub ma maja mam mamy masz mi mial mnie mna
    moge moga moja moje moj moze mozna moj musi musimy musisz musze my na nad nam nami napisz nas nasz nasza
    nasze nia nic nich nie niech nim niz o od on ona one oni ono oraz po pod podaj pokaz powiedz poza prosze
    przed przez przy sa sam se sie skad so sobie swoj swoja swoje ta tak taka taki takie tam te tego tej tel
    temu ten to toba tu twoj twoja twoje ty tych tylko tym u w was wasz we wedlug wiec witam wszystko wy
    wyjasnij z za ze zeby znaczy
"""
"""Without diacritics."""
_ENGLISH, _POLISH = frozenset(_ENGLISH_WORDS.split()), frozenset(_POLISH_WORDS.split())
_OF_THIRD = ("am", "by", "do", "go", "he", "in", "is", "it", "me", "my", "no", "on", "so", "to", "was", "we", "use")
_OF_BOTH = frozenset(_OF_THIRD) | (_ENGLISH & _POLISH)
"""Words of one of both languages, or of a third, that tell nothing about the language of a question."""
_WORD = re.compile(r"[^\W\d_]+")
_FOLDED = str.maketrans("ąćęłńóśźż", "acelnoszz")
_POLISH_LETTERS = frozenset("ąęłśźż")
_LETTERS_OF_OTHERS = frozenset("äöüßčďěňřšťůžőűñçãõåøæ")


def language_of(text: str) -> Language | None:
    """Return the language of a question; `None` if its words show neither English nor Polish, or both alike."""
    lower = text.lower()
    if _LETTERS_OF_OTHERS & set(lower):
        return None
    words = {_folded(word) for word in _WORD.findall(lower)} - _OF_BOTH
    english, polish = len(words & _ENGLISH), len(words & _POLISH) + 2 * bool(_POLISH_LETTERS & set(lower))
    if english == polish:
        return None
    return "en" if english > polish else "pl"


def _folded(word: str) -> str:
    return word.lower().translate(_FOLDED)
