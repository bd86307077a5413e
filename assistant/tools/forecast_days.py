"""Computes the dates that words such as "tomorrow" or "next friday" mean at a place, for the weather tool."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import date, timedelta

from assistant.tools.day_phrases import MONTHS, WEEKDAYS, stated
from assistant.tools.sentences import Sentence
from assistant.tools.tool import InvalidArguments

MAX_OFFSET = 366
"""Days from today on that can be asked for."""

_OFFSETS = {"yesterday": -1, "today": 0, "tomorrow": 1, "day after tomorrow": 2}
_IN_DAYS = re.compile(r"in (\d{1,3}) days?")
_DATE = re.compile(r"(?:(\d{4})-)?(\d\d)-(\d\d)")
_POLISH_WEEKDAYS = ("poniedziałek", "wtorek", "środa", "czwartek", "piątek", "sobota", "niedziela")
_UNREADABLE = Sentence("The day “{day}” can't be read.", "Nie rozumiem, o jaki dzień chodzi: „{day}”.")


@dataclass(frozen=True)
class AskedDays:
    """The first and the last local date that a question asks about."""

    first: date
    last: date

    def contains(self, iso_date: str) -> bool:
        """Return whether `iso_date`, a date in ISO 8601, is one of the days that the question asks about."""
        return self.first.isoformat() <= iso_date <= self.last.isoformat()

    def text(self, language: str) -> str:
        """Return the asked days as people read them in `language`: "Friday, 2026-11-27", "2026-11-28 – 2026-11-29"."""
        if self.first == self.last:
            return named_date(self.first.isoformat(), language)
        return f"{self.first.isoformat()} – {self.last.isoformat()}"


def named_date(iso_date: str, language: str) -> str:
    """Return a date in ISO 8601 with the name of its weekday in `language` before it."""
    number = date.fromisoformat(iso_date).weekday()
    name = _POLISH_WEEKDAYS[number] if language == "pl" else WEEKDAYS[number].capitalize()
    return f"{name}, {iso_date}"


def asked_days(day: str, today: date) -> AskedDays:
    """Return the dates that the words `day` mean on the local date `today`; weeks begin on Monday.

    Models may use phrases other than those that `day_phrases` finds.

    Raises:
        InvalidArguments: the words are no day.
    """
    words = " ".join(day.lower().split())
    if words.startswith("until "):
        return AskedDays(today, max(today, asked_days(words.removeprefix("until "), today).last))
    if words in _OFFSETS:
        return _one(today + timedelta(days=_OFFSETS[words]))
    if (offset := _IN_DAYS.fullmatch(words)) is not None:
        return _one(today + timedelta(days=min(int(offset[1]), MAX_OFFSET)))
    which, _, name = words.rpartition(" ")
    if which in ("", "this", "next", "last") and (found := _named(which, name, today)) is not None:
        return found
    if (written := _DATE.fullmatch(words)) is not None and (on := _on(written, today)) is not None:
        return _one(on)
    phrase = stated(words).day
    if phrase is None or phrase == words:
        raise InvalidArguments(_UNREADABLE, day=day)
    return asked_days(phrase, today)


def _one(day: date) -> AskedDays:
    return AskedDays(day, day)


def _named(which: str, name: str, today: date) -> AskedDays | None:
    """Return the days of a weekday, a weekend, a week or a month; `None`: the name is none of them."""
    if name in MONTHS:
        return _month(MONTHS.index(name) + 1, today)
    if name not in ("week", "weekend", *WEEKDAYS):
        return None
    numbers = {"week": (0, 6), "weekend": (5, 6)}.get(name) or (WEEKDAYS.index(name),) * 2
    monday = today - timedelta(days=today.weekday())
    if which in ("next", "last"):
        monday += timedelta(weeks=1 if which == "next" else -1)
    elif monday + timedelta(days=numbers[1]) < today:
        monday += timedelta(weeks=1)
    first, last = (monday + timedelta(days=number) for number in numbers)
    return AskedDays(first if which == "last" else max(first, today), last)


def _month(month: int, today: date) -> AskedDays:
    year = today.year + (month < today.month)
    first = date(year, month, 1)
    return AskedDays(max(first, today), date(year, month, calendar.monthrange(year, month)[1]))


def _on(written: re.Match[str], today: date) -> date | None:
    """Return a written date; without a year, the next one from today on. `None`: there is no such date."""
    years = [int(written[1])] if written[1] else range(today.year, today.year + 5)
    for year in years:
        try:
            found = date(year, int(written[2]), int(written[3]))
        except ValueError:
            continue
        if written[1] or found >= today:
            return found
    return None
