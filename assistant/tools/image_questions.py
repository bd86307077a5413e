"""Finds in an English or Polish request, without a model, what the image tool is to draw."""

from __future__ import annotations

import re
from collections.abc import Iterator

from assistant.tools.folding import lenient_pattern

MAX_QUESTION = 1000


def _compiled(pattern: str) -> re.Pattern[str]:
    return lenient_pattern(pattern, re.IGNORECASE)


_POLITE = (
    r"(?:(?:please|can (?:you|u)|could you|would you(?: mind)?|will you|hey|hi|hello|ok|okay|now|just|so|assistant"
    r"|try to|help me|maybe"
    r"|good (?:morning|evening|afternoon)|let's|let me|i(?:'d| would) (?:like|love)(?: you)?"
    r"(?: to(?: see| have| get)?)?|i (?:want|need)(?: you)?(?: to(?: see| have| get)?)?"
    r"|(?:can|could|may) i (?:please )?(?:have|get|see)|you|possibly"
    r"|prosz[ęe](?: o)?|czy|możesz|da się|mo[żz]e|mógłby[śm]|mogłaby[śm]|hej|cześć|dzień dobry|dobry wieczór"
    r"|witaj|(?:[ai] )?teraz|po prostu"
    r"|chc[ęe](?: zobaczyć)?|chciał(?:bym|abym)(?: zobaczyć)?|poprosz[ęe](?: o)?|potrzebuj[ęe]"
    r"|weź|mi|nam)\b[\s,!:.]*){0,8}"
)
_STRONG_VERB = (
    r"(?:draw|paint|sketch|illustrate|render|generate|depict|visuali[sz]e"
    r"|(?<=about )(?:draw|paint|sketch|generat|render)ing|(?<=mind )(?:draw|paint|sketch|generat|render)ing"
    r"|narys(?!owan|un)\w+|rysuj\w*|rysować|namal(?!owan)\w+|maluj\w*|malować|naszkic(?!owan)\w+|szkicuj\w*"
    r"|wyrenderuj\w*|wyrenderować|zilustruj\w*|zilustrować|zobrazuj\w*|zobrazować|zwizualizuj\w*|zwizualizować"
    r"|wygeneruj\w*|wygenerować|generuj|przedstaw|przedstawić|wyczaruj)"
)
"""Verbs that ask for a picture wherever they are."""
_WEAK_VERB = (
    r"(?:create|make|produce|design|imagine|show|give|turn|get|stw[óo]rz\w*|utw[óo]rz\w*|utworzyć|zr[óo]b\w*|wykonaj"
    r"|zaprojektuj\w*|pokaż|zrobić|daj|przygotuj|przygotować|wyobraź sobie)"
)
"""Verbs that ask for a picture at the beginning of a sentence."""
_OBJECT = r"(?:\s+(?:me|us|for me|for us|mi|nam|sobie|dla mnie|please|proszę|something|anything|coś|mi proszę)\b)*"
_NOUN = (
    r"(?:pictures?|images?|pics?|photos?|photographs?|drawing|painting|illustration|sketch|graphic|art|artwork"
    r"|obraz(?:ek|ka|u)?|zdjęci[ea]|rysun(?:ek|ku)|ilustracj[aęi]|grafik[aęi]|szkicu?|fotografi[aęi])"
)
_LINK = r"(?:\s+(?:of|showing|with|depicting|that shows|where)\b|\s*:)"
_POLISH_NOUN = r"(?:obraz(?:ek|ka|u)?|zdjęci[ea]|rysun(?:ek|ku)|ilustracj[aęi]|grafik[aęi]|szkicu?|fotografi[aęi])"
_POLISH_LINK = (
    r"(?:,?\s+(?:przedstawiając\w*|pokazując\w*|na któr(?:ym|ej) (?:jest|są)|ze?)\b"
    r"|\s*:|(?=\s+(?!(?:do|dla|na|o|jako)\b)[^\W\d_]))"
)
_PICTURE = rf"(?:\b{_NOUN}{_LINK}|\b{_POLISH_NOUN}{_POLISH_LINK})"
_NOT_A_NOUN = r"(?<!\ba )(?<!\ban )(?<!\bthe )"
_CUES = tuple(
    _compiled(pattern)
    for pattern in (
        rf"{_NOT_A_NOUN}\b{_STRONG_VERB}\b(?!\s+(?:of|showing|depicting)\b){_OBJECT}[\s,:?.!]*",
        rf"{_PICTURE}\s*",
        rf"(?:^|(?<=[.!?;] )|(?<=, so )|(?<=, więc )){_POLITE}{_WEAK_VERB}\b{_OBJECT}[\s,:?.!]*",
    )
)
_LEADING_PICTURE = _compiled(
    rf"^(?:it\s+)?(?:(?:a|an|the|one|some|my)\s+)?(?:(?!(?:with|of|in|on|and|who|z|ze|w|na|o|i)\b)[^\W\d_]+\s+){{0,3}}?{_PICTURE}\s*",
)
_LEADING_POLITE = _compiled(rf"^{_POLITE}")
_LEADING_WEAK = _compiled(rf"^{_POLITE}{_WEAK_VERB}\b{_OBJECT}[\s,:]*")
_NOTHING_YET = _compiled(r"^(?:something|anything|coś)(?:\s+(?:for me|dla mnie))?\s*[?.:!,]+\s*")
_END = _compiled(
    r"[\s,.!?]+(?:please|pls|for me|thanks|thank you(?: very much)?|cheers|ok|okay|and|then|prosz[ęe]"
    r"|poprosz[ęe]|dla mnie|dzięki"
    rf"|dziękuj[ęe]|dobrze|i|oraz|a|{_STRONG_VERB}\s+(?:it|this|that|them|go|ją|je|to))$",
)
_QUOTES = " \t?!.…,;:\"'„”“"
_EMPTY = frozenset({
    "it", "this", "that", "them", "something", "anything", "picture", "image", "a", "an", "me", "photo", "drawing",
    "to", "coś", "cokolwiek", "go", "ją", "je", "obraz", "obrazek", "rysunek", "zdjęcie", "mi", "ilustrację", "one",
    "for", "dla", "mnie", "please", "proszę",
})  # fmt: skip
"""Words that are no subject of a picture by themselves."""


def image_prompt(question: str) -> str | None:
    """Return what a request wants to be drawn, as a prompt without the words that ask; `None` if it names nothing."""
    text = " ".join(question[:MAX_QUESTION].split())
    return next(
        (prompt for each in _readings(text) if (prompt := _without_frame(each)) and not _is_empty(prompt)), None
    )


def _readings(text: str) -> Iterator[str]:
    """Yield the part of a request behind the words that ask, then the part before them ("a fox, draw it")."""
    found = [match for pattern in _CUES if (match := pattern.search(text)) is not None]
    if not found:
        yield _LEADING_POLITE.sub("", text)
        return
    cue = min(found, key=lambda match: match.start())
    yield text[cue.end() :]
    yield _LEADING_POLITE.sub("", _LEADING_WEAK.sub("", text[: cue.start()]))


def _without_frame(text: str) -> str:
    """Return a description without "a picture of" before it and thanks behind it."""
    text = _LEADING_PICTURE.sub("", _NOTHING_YET.sub("", text.strip(_QUOTES)), count=1)
    while (shorter := _END.sub("", text.strip(_QUOTES))) != text:
        text = shorter
    return text


def _is_empty(text: str) -> bool:
    return all(not word or word in _EMPTY for word in (each.strip(_QUOTES).lower() for each in text.split()))
