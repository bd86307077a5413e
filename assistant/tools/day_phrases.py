"""Finds phrases of time in English and Polish questions about the weather: the day that they mean, and the rest.

A day is in words that `forecast_days` reads: "tomorrow", "next friday", "until sunday", "weekend", "in 3 days",
"06-14".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from assistant.tools.folding import without_diacritics

MAX_DAYS = 7
MASK = "|"
"""Character that stands for a phrase of time that was removed."""

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
          "december")  # fmt: skip
_POLISH_WEEKDAYS = (
    "poniedzial(?:ek|ku|kiem)", "wtor(?:ek|ku|kiem)", r"srod[aey](?! (?:wielkop|slask))", "czwart(?:ek|ku|kiem)",
    "piat(?:ek|ku|kiem)", "sobot[aey]", "niedziel[aei]",
)  # fmt: skip
_POLISH_MONTHS = (
    "stycz(?:en|nia|niu)", "lut(?:y|ego|ym)", "mar(?:zec|ca|cu)", "kwie(?:cien|tnia|tniu)", "maj[au]?",
    "czerw(?:iec|ca|cu)", "lip(?:iec|ca|cu)", "sierp(?:ien|nia|niu)", "wrze(?:sien|snia|sniu)", "pazdziernik[au]?",
    "listopad(?:a|zie)?", "grud(?:zien|nia|niu)",
)  # fmt: skip
_NUMBER_WORDS = {
    word: number
    for words in (
        "one two three four five six seven eight nine ten",
        "jeden dwa trzy cztery piec szesc siedem osiem dziewiec dziesiec",
    )
    for number, word in enumerate(words.split(), 1)
} | {"a couple of": 2, "a": 1, "dwoch": 2, "trzech": 3, "czterech": 4, "pieciu": 5, "szesciu": 6, "siedmiu": 7}
_NUMBER = rf"(?P<number>\d{{1,2}}|{'|'.join(_NUMBER_WORDS)})"
_WEEKDAY = "|".join(
    f"(?P<d{number}>{english}s?|{polish})"
    for number, (english, polish) in enumerate(zip(WEEKDAYS, _POLISH_WEEKDAYS, strict=True))
)
_MONTH = "|".join(
    f"(?P<m{number}>{english}|{english[:3]}|{polish})"
    for number, (english, polish) in enumerate(zip(MONTHS, _POLISH_MONTHS, strict=True), 1)
)
_BEFORE = (
    r"(?:(?P<until>before|by|until|till|do|przed)\s+"
    r"|(?:on|for|from|since|over|during|at|in|w|we|na|od|przez|podczas)\s+)?"
)
_WHICH = (
    r"(?:(?:the|all)\s+)?(?:(?P<next>next|following|przyszl\w{1,2}|nastepn\w{1,2}|kolejn\w{1,2})\s+"
    r"|(?P<last>last|past|zeszl\w{1,2}|ostatni\w{0,2}|ubiegl\w{1,2}|minion\w{1,2})\s+"
    r"|(?:this|coming|upcoming|ten|te|ta|tym|najblizsz\w{1,2}|nadchodzac\w{1,2}|biezac\w{1,2})\s+){0,2}"
)
_NAMED_DATES = (
    ("12-24", r"christmas eve|wigili\w{1,2}"),
    ("12-25", r"christmas(?: day)?|boze narodzenie"),
    ("12-31", r"new year'?s eve|sylwestr\w?"),
    ("01-01", r"new year'?s day|nowy rok"),
)


@dataclass(frozen=True)
class Stated:
    """What a question states about time, and the question with each phrase of time replaced by `MASK` and spaces."""

    text: str
    day: str | None = None
    days: int | None = None
    """Days of forecast from today on, at most `MAX_DAYS`."""


def stated(text: str) -> Stated:
    """Return which day, or how many days from today, a weather question states, and the question without them.

    Of several days it is the first that is not today.
    """
    plain = without_diacritics(text)
    days: list[str] = []
    count: int | None = None
    for pattern, meaning in _PATTERNS:
        for match in pattern.finditer(plain):
            found = meaning(match)
            if isinstance(found, int):
                count = max(count or 1, min(found, MAX_DAYS))
            elif found:
                days.append(found)
        plain, text = _masked(pattern, plain, text)
    day = next((each for each in days if each != "today"), next(iter(days), None))
    return Stated(text, day, None if day else count)


def _masked(pattern: re.Pattern[str], plain: str, text: str) -> tuple[str, str]:
    spans = [match.span() for match in pattern.finditer(plain)]
    for start, end in spans:
        mask = MASK.ljust(end - start)
        plain, text = plain[:start] + mask + plain[end:], text[:start] + mask + text[end:]
    return plain, text


def _weekday(match: re.Match[str]) -> str:
    return _qualified(match, WEEKDAYS[next(n for n in range(7) if match[f"d{n}"])])


def _qualified(match: re.Match[str], name: str) -> str:
    if match["until"]:
        return f"until {name}"
    return f"next {name}" if match["next"] else f"last {name}" if match["last"] else name


def _week(match: re.Match[str]) -> str | int:
    return "next week" if match["next"] else "last week" if match["last"] else MAX_DAYS


def _offset(match: re.Match[str]) -> str:
    return f"in {_number(match) * (7 if match['weeks'] else 1)} days"


def _number(match: re.Match[str]) -> int:
    number = match["number"] or "1"
    return _NUMBER_WORDS.get(number) or max(1, int(number))


def _date(match: re.Match[str]) -> str:
    month = next(n for n in range(1, 13) if match[f"m{n}"])
    year = f"{match['year']}-" if match["year"] else ""
    return f"{year}{month:02}-{int(match['day']):02}"


def _month(match: re.Match[str]) -> str:
    return _qualified(match, MONTHS[next(n for n in range(1, 13) if match[f"m{n}"]) - 1]).removeprefix("until ")


def _numeric_date(match: re.Match[str]) -> str:
    if match["iso"]:
        return match["iso"]
    return f"{int(match['month']):02}-{int(match['day']):02}"


def _always(day: str) -> Callable[[re.Match[str]], str]:
    return lambda _: day


def _compiled() -> Iterator[tuple[re.Pattern[str], Callable[[re.Match[str]], str | int]]]:
    day_number = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th|\.)?"
    year = r"(?:,?\s+(?P<year>20\d\d)(?:\s+r(?:oku)?\b)?)?"
    for day, words in _NAMED_DATES:
        yield re.compile(rf"\b(?:(?:on|at|for|w|na|do)\s+)?(?:{words})\b"), _always(day)
    yield re.compile(rf"\b(?:(?:on|for|na|w)\s+)?(?:the\s+)?{day_number}\s+(?:of\s+)?(?:{_MONTH})\b{year}"), _date
    yield re.compile(rf"\b(?:(?:on|for)\s+)?(?:{_MONTH})\s+(?:the\s+)?{day_number}\b(?!\s*days?\b){year}"), _date
    yield (
        re.compile(
            r"\b(?:(?:on|for|na|w|dnia)\s+)?(?:(?P<iso>20\d\d-\d\d-\d\d)|(?P<day>[0-3]?\d)\.(?P<month>[01]\d)\b\.?)"
        ),
        _numeric_date,
    )
    yield (
        re.compile(r"\b(?:(?:for|on|na|the)\s+)*(?:day after tomorrow|pojutrz\w{1,8})\b"),
        _always("day after tomorrow"),
    )
    yield (
        re.compile(r"\b(?:(?:for|on|na|od)\s+)?(?:tomorrow(?:'s)?|tmrw|jutr(?:o|a)|jutrzejsz\w{1,3})\b"),
        _always("tomorrow"),
    )
    yield re.compile(r"\b(?:yesterday(?:'s)?|wczoraj\w{0,5}|przedwczoraj)\b"), _always("yesterday")
    yield (
        re.compile(
            rf"\b(?:in(?!\s+(?:days?|weeks?)\b)|za)\s+(?:{_NUMBER}\s+)?(?:days?|dni|dzien|(?P<weeks>weeks?|tydzien|tygodnie|tygodni))(?:'\s*time)?\b"
        ),
        _offset,
    )
    yield (
        re.compile(
            rf"\b(?:(?:for|over|in|during|the|next|coming|following|na|przez|w|ciagu|kolejn\w{{1,3}}|najblizsz\w{{1,3}}"
            rf"|nastepn\w{{1,3}})\s+){{0,4}}{_NUMBER}(?:\s+|\s?-\s?)(?:days?|dni|dniow\w{{1,3}})\b(?:\s+(?:ahead|forecast))?"
        ),
        _number,
    )
    yield re.compile(rf"\b{_BEFORE}{_WHICH}(?P<end>weekend\w{{0,3}})\b"), lambda match: _qualified(match, "weekend")
    yield re.compile(rf"\b{_BEFORE}{_WHICH}(?:week(?:'s)?|tydzien|tygodni[ua])\b(?:\s+ahead)?"), _week
    yield re.compile(rf"\b{_BEFORE}{_WHICH}(?:{_WEEKDAY})\b(?:'s)?"), _weekday
    yield re.compile(rf"\b(?P<until>until|before|do)?\s*\b(?:in|during|for|w|na)\s+{_WHICH}(?:{_MONTH})\b"), _month
    yield (
        re.compile(
            r"\b(?:(?:for|later|earlier|na)\s+)?(?:today(?:'s)?|tonight(?:'s)?|this (?:morning|afternoon|evening|night)"
            r"|dzis(?:iaj|iejsz\w{1,3})?)\b"
        ),
        _always("today"),
    )
    yield (
        re.compile(
            r"\b(?:right now|now|rn|currently|current|at the moment|at this moment"
            r"|(?:late |early )?in the (?:morning|afternoon|evening)"
            r"|at (?:night|noon|dawn|dusk|midnight|lunchtime)|overnight|later(?: on)?|soon|outside|outdoors"
            r"|(?:late |early )?(?:morning|afternoon|evening|night)s?(?:'s)?"
            r"|teraz|obecnie|w tej chwili|aktualn\w{1,3}|rano|wieczorem|po poludniu|przed poludniem|w nocy|noca"
            r"|o swicie"
            r"|w poludnie|na zewnatrz|na dworze|na polu|(?:w|na) swieta|o \d{1,2}(?:[:.]\d\d)?"
            r"|(?:at |around )?\d{1,2}(?:[:.]\d\d)?\s?(?:am|pm|o'clock)|at \d{1,2}(?:[:.]\d\d)?)\b"
        ),
        _always(""),
    )


_PATTERNS = tuple(_compiled())
