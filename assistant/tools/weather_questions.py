"""Arguments of the weather tool, found in English and Polish questions without a model."""

from __future__ import annotations

import re
from typing import Any

MAX_DAYS = 7
MAX_QUESTION = 1000

_DAYS = [
    (re.compile(r"\b(?:day after tomorrow|pojutrze)\b", re.I), 3),
    (re.compile(r"\b(?:tomorrow|jutro|jutrzejsz\w+)(?:'s)?\b", re.I), 2),
    (
        re.compile(
            r"\b(?:(?:for|over|during|on|this|the|next|coming|w|na|ten|przyszły|najbliższy|w ten)\s+)*"
            r"(?:weekend\w*|week|tydzień|tygodniu)\b",
            re.I,
        ),
        MAX_DAYS,
    ),
    (
        re.compile(
            r"\b(?:on|next|this|w|we|na|ten|tę|przyszły|przyszłą|najbliższy|najbliższą)?\s*\b"
            r"(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|poniedziałek|wtorek|środę|czwartek|piątek"
            r"|sobotę|niedzielę)\b",
            re.I,
        ),
        MAX_DAYS,
    ),
    (re.compile(r"\b(?:today|tonight|dziś|dzisiaj|dzisiejsz\w+)(?:'s)?\b", re.I), 1),
]
_NUMBER_OF_DAYS = re.compile(
    r"\b(?:(?:for|over|in|the|next|coming|na|przez|w|ciągu|kolejne|najbliższe|następne|najbliższych|następnych)\s+)*"
    r"(\d{1,2}|two|three|four|five|six|seven|dwa|trzy|cztery|pięć|sześć|siedem)[ -](?:days?|dni)\b(?:\s+forecast)?",
    re.I,
)
_NUMBERS = {
    **dict(zip(["two", "three", "four", "five", "six", "seven"], range(2, 8), strict=True)),
    **dict(zip(["dwa", "trzy", "cztery", "pięć", "sześć", "siedem"], range(2, 8), strict=True)),
}
_TIMES = re.compile(
    r"\b(?:right now|now|currently|at the moment|at this moment|(?:this|in the) (?:morning|afternoon|evening)|at night"
    r"|at noon|later|soon|outside|please"
    r"|teraz|obecnie|w tej chwili|aktualnie|aktualna|rano|wieczorem|po południu|w nocy"
    r"|w południe|na zewnątrz|proszę|o \d{1,2}(?:[:.]\d\d)?|at \d{1,2}(?:[:.]\d\d)?\s*(?:am|pm)?)\b",
    re.I,
)
_WORD = r"[^\W\d_][\w'’.-]*"
_PLACE = rf"({_WORD}(?:[ ]{_WORD}){{0,4}}(?:,\s*{_WORD}(?:[ ]{_WORD}){{0,2}})?)"
_AFTER_PREPOSITION = re.compile(
    rf"\b(?:in|at|for|near|around|w|we|dla|na|nad|pod|koło|przy|miasta|mieście)"
    rf"\s+(?:the\s+(?:city|town) of\s+)?{_PLACE}",
    re.I,
)
_KEYWORD = r"(?:weather|forecast|temperature|pogod\w*|prognoz\w*|temperatur\w*)"
_BESIDE_KEYWORD = [
    re.compile(rf"\b(?:of|{_KEYWORD}(?:\s+pogody)?)\s*[:,-]?\s+{_PLACE}", re.I),
    re.compile(rf"{_PLACE}\s*[:,-]?\s+{_KEYWORD}\b", re.I),
]
_ENDS = frozenset({
    "and", "or", "but", "if", "so", "is", "are", "was", "will", "be", "can", "could", "should", "would", "do", "does",
    "like", "there", "then", "than", "that", "when", "what", "how", "who", "i", "you", "we", "it", "he", "she", "they",
    "to", "with", "about", "because", "looking", "going", "me", "my", "please", "thanks", "thank", "oraz", "lub",
    "albo", "ale", "czy", "jest", "są", "był", "było", "będzie", "będą", "ma", "mam", "mieć", "jak", "jaka", "jaki",
    "jakie", "co", "kiedy", "gdzie", "bo", "żeby", "się", "pada", "padać", "padało", "leje", "świeci", "grzmi", "wieje",
    "mi", "tam", "ten", "ta", "według", "dziękuję", "a", "o", "ze", "od", "z", "po",
})  # fmt: skip
"""Words at which a place's name ends."""
_NEVER = frozenset({
    "the", "a", "an", "this", "that", "today", "tomorrow", "weather", "forecast", "temperature", "me", "you", "it",
    "general", "my", "degrees", "celsius", "fahrenheit", "what", "what's", "whats", "how", "show", "tell", "give",
    "get", "check", "current", "currently", "local", "latest", "pogoda", "pogody", "pogodę", "pogodzie", "prognoza",
    "prognozy", "prognozę", "temperatura", "temperaturę", "stopniach", "jaka", "jaką", "pokaż", "podaj", "sprawdź",
    "powiedz", "mnie", "tobie", "domu", "ogóle", "ile", "czy", "która",
})  # fmt: skip
"""Words that begin no place's name."""


def weather_arguments(question: str) -> dict[str, Any] | None:
    """Return the place and, if stated, the days that a question asks for; `None` if it names no place."""
    text, days = _without_times(" ".join(question[:MAX_QUESTION].split()))
    place = _place(text)
    if place is None:
        return None
    return {"place": place} | ({"days": days} if days else {})


def _without_times(text: str) -> tuple[str, int | None]:
    """Return a question without its words about time, and the days of forecast that they need."""
    days: list[int] = []
    for match in _NUMBER_OF_DAYS.finditer(text):
        number = match[1].lower()
        days.append(min(_NUMBERS.get(number) or int(number), MAX_DAYS))
    text = _NUMBER_OF_DAYS.sub(" ", text)
    for pattern, needed in _DAYS:
        if pattern.search(text):
            days.append(needed)
            text = pattern.sub(" ", text)
    return re.sub(r"\s+", " ", _TIMES.sub(" ", text)).strip(), max(1, *days) if days else None


def _place(text: str) -> str | None:
    after = [_name(each[1]) for each in _AFTER_PREPOSITION.finditer(text)]
    beside = [_name(each[1]) for pattern in _BESIDE_KEYWORD for each in pattern.finditer(text)]
    named = [each for each in after if each]
    capitalised = [each for each in named if each[0].isupper()]
    return next(iter([*capitalised, *named, *(each for each in beside if each)]), None)


def _name(text: str) -> str | None:
    """Return the words of a match that can be a place's name."""
    words: list[str] = []
    for word in text.split(" "):
        bare = word.strip(".,;:!?'’").lower()
        if bare in _ENDS or (not words and bare in _NEVER):
            break
        words.append(word)
        if word[-1] in ".;:!?" and len(bare) > 2:
            break
    name = " ".join(words).strip(" .,;:!?'’-")
    return name if len(name) > 1 else None
