"""Finds in an English or Polish request what is to be drawn, without a model."""

from __future__ import annotations

import re

MAX_QUESTION = 1000

_POLITE = re.compile(
    r"^(?:(?:please|can you|could you|would you|will you|hey|hi|hello|now|i(?:'d| would) like(?: you to)?|i want"
    r"(?: you to)?|can i (?:have|get|see)|proszę(?: o)?|czy możesz|możesz|czy mógłbyś|czy mogłabyś|mógłbyś|mogłabyś"
    r"|hej|cześć|teraz|chcę|chciał(?:bym|abym)|poproszę(?: o)?)\b[\s,!:]*)+",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"^(?:to\s+)?(?:draw|paint|sketch|illustrate|render|generate|create|make|produce|design|depict|visuali[sz]e|imagine|show"
    r"|give|narys(?:uj|ow)\w*|rysuj|namal(?:uj|ow)\w*|maluj|naszkic\w+|szkicuj|wygener\w+|generuj|stw[óo]rz\w*|utw[óo]rz\w*|zr[óo]b\w*"
    r"|wykonaj|przedstaw|zilustruj|zaprojektuj|pokaż|wyczaruj|zobrazuj)\b(?:\s+(?:me|us|for me|mi|nam|dla mnie|please"
    r"|proszę))*[\s,:]*",
    re.IGNORECASE,
)
_PICTURE = re.compile(
    r"^(?:(?:a|an|the|one|some|jeden|jakiś|jakieś)\s+)?(?:(?:picture|image|photo|photograph|drawing|illustration"
    r"|sketch|graphic)s?\s+(?:of|showing|with|depicting|that shows|where)"
    r"|(?:obraz\w*|zdjęci\w*|rysun\w*|ilustracj\w*|grafik\w*|szkic\w*|fotografi\w*)"
    r"(?:[\s,]+(?:przedstawiając\w*|pokazując\w*|na którym (?:jest|są)|na której (?:jest|są)|z|ze))?)\s+",
    re.IGNORECASE,
)
_END = re.compile(r"[\s,]+(?:please|for me|proszę|dla mnie)$", re.IGNORECASE)
_QUOTES = " \t?!.…,;:\"'„”“"
_EMPTY = frozenset({
    "it", "this", "that", "them", "something", "anything", "picture", "image", "a", "an", "me", "photo", "drawing",
    "to", "coś", "cokolwiek", "go", "ją", "je", "obraz", "obrazek", "rysunek", "zdjęcie", "mi", "ilustrację", "one",
})  # fmt: skip
"""Words that are no subject of a picture by themselves."""


def image_prompt(question: str) -> str | None:
    """Return what a request wants to be drawn, without the words that ask for it; `None`: it names nothing."""
    text = " ".join(question[:MAX_QUESTION].split()).strip(_QUOTES)
    text = _POLITE.sub("", text)
    text = _VERB.sub("", text, count=1)
    text = _PICTURE.sub("", text, count=1)
    text = _END.sub("", text).strip(_QUOTES)
    words = [word.strip(_QUOTES).lower() for word in text.split()]
    return None if all(not word or word in _EMPTY for word in words) else text
