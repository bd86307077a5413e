"""Days in words, and the dates that they mean on a Tuesday."""

from __future__ import annotations

from datetime import date

import pytest

from assistant.tools.forecast_days import AskedDays, asked_days, named_date
from assistant.tools.tool import InvalidArguments

TUESDAY = date(2026, 11, 24)


@pytest.mark.parametrize(
    ("day", "first", "last"),
    [
        ("today", "2026-11-24", "2026-11-24"),
        ("Tomorrow", "2026-11-25", "2026-11-25"),
        ("day after  tomorrow", "2026-11-26", "2026-11-26"),
        ("yesterday", "2026-11-23", "2026-11-23"),
        ("in 4 days", "2026-11-28", "2026-11-28"),
        ("in 999 days", "2027-11-25", "2027-11-25"),
        ("tuesday", "2026-11-24", "2026-11-24"),
        ("monday", "2026-11-30", "2026-11-30"),
        ("this friday", "2026-11-27", "2026-11-27"),
        ("next friday", "2026-12-04", "2026-12-04"),
        ("last friday", "2026-11-20", "2026-11-20"),
        ("until friday", "2026-11-24", "2026-11-27"),
        ("weekend", "2026-11-28", "2026-11-29"),
        ("next weekend", "2026-12-05", "2026-12-06"),
        ("last weekend", "2026-11-21", "2026-11-22"),
        ("this week", "2026-11-24", "2026-11-29"),
        ("next week", "2026-11-30", "2026-12-06"),
        ("12-25", "2026-12-25", "2026-12-25"),
        ("06-14", "2027-06-14", "2027-06-14"),
        ("02-29", "2028-02-29", "2028-02-29"),
        ("2025-01-02", "2025-01-02", "2025-01-02"),
        ("november", "2026-11-24", "2026-11-30"),
        ("july", "2027-07-01", "2027-07-31"),
        ("on Friday evening", "2026-11-27", "2026-11-27"),
        ("w przyszły piątek", "2026-12-04", "2026-12-04"),
        ("14 June", "2027-06-14", "2027-06-14"),
    ],
)
def test_dates(day: str, first: str, last: str) -> None:
    assert asked_days(day, TUESDAY) == AskedDays(date.fromisoformat(first), date.fromisoformat(last))


def test_a_weekend_that_has_begun_is_what_is_left_of_it() -> None:
    sunday = date(2026, 11, 29)
    assert asked_days("weekend", sunday) == AskedDays(sunday, sunday)
    assert asked_days("until yesterday", sunday) == AskedDays(sunday, sunday)


@pytest.mark.parametrize("day", ["", "someday", "next", "next someday", "02-30", "2026-13-01", "in days", "until"])
def test_other_words_are_refused(day: str) -> None:
    with pytest.raises(InvalidArguments):
        asked_days(day, TUESDAY)


def test_days_are_named() -> None:
    assert named_date("2026-11-27", "en") == "Friday, 2026-11-27"
    assert named_date("2026-11-27", "pl") == "piątek, 2026-11-27"
    assert asked_days("weekend", TUESDAY).text("pl") == "2026-11-28 – 2026-11-29"
    assert asked_days("weekend", TUESDAY).contains("2026-11-29")
