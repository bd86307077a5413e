"""Guesses whether a question is Polish or English: by its letters and words, else by the user's turn before."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from assistant.routing.normal_form import plain
from assistant.turn import Turn

Language = Literal["en", "pl"]

_POLISH_LETTERS = re.compile(r"[ąćęłńśźżĄĆĘŁŃŚŹŻ]")
_POLISH_WORD = re.compile(r"\b[a-ząćęłńóśźż]*[ąćęłńśźż]\w*")
"""A word with a Polish letter that begins with a small letter, so that it is no name."""
_POLISH = re.compile(
    r"\b(?:w|we|z|ze|na|do|nie|jest|sa|czy|jak|co|ile|kto|kim|kiedy|gdzie|jaka|jaki|jakie|ktory|ktora|ktore|tam|ten|ta"
    r"|byl|byla|bylo|bedzie|jutro|dzis|dzisiaj|teraz|mi|mnie|dla|po|od|pod|nad|oraz|tego|tej|przez|narysuj|oblicz|policz"
    r"|napisz|pogoda|pogody|pogode|prosze|rozwiaz|wykres|calka|pochodna|zrob|podaj|moj|moja|moje|moich|razy|pierwiastek"
    r"|pada|obraz|obrazek|rysunek|zdjecie|historia|opowiedz|o|za|oraz|albo|kto|ktos|lub|bo|ale|zeby|ma|mam|masz|hej"
    r"|ze|wersja|funkcja|wojna|kolor|dni|stopni|mnie|jestem|powiedz|znajdz|zadanie|ladnie|dobry|dobra|dobre"
    r"|\w*(?:cz(?!ech)|sz|rz|dzi|wsk|sci)\w*|\w{2,}(?:ych|iej|ego|owe|owy|owa|owie|anie|enie|ania|enia|acja|acji|ach))\b"
)
_ENGLISH = re.compile(
    r"\b(?<!ile )to\b"
    r"|\b(?:the|i|my|is|are|was|were|what|who|when|where|which|how|of|in|on|for|and|me|it|you|do|does|did|will|can|draw"
    r"|an|about|with|there|this|that|from|at|be|has|have|please|weather|write|make|now|his|her|its)\b"
)


def language_of(text: str, history: Sequence[Turn] = ()) -> Language:
    """Return "pl" if `text` is Polish, else "en".

    A text without evidence has the language of the last user's turn in `history`. A Polish name in an English sentence
    is no evidence.
    """
    if _POLISH_WORD.search(text):
        return "pl"
    words = plain(text)
    polish, english = len(_POLISH.findall(words)), len(_ENGLISH.findall(words))
    if polish == english and _POLISH_LETTERS.search(text):
        return "pl"
    if polish == english and history:
        users = [turn.text for turn in history if turn.role == "user"]
        return language_of(users[-1]) if users else "en"
    return "pl" if polish > english else "en"
