"""Phrases of time in questions, and what is left of the questions."""

from __future__ import annotations

import time

import pytest

from assistant.tools.day_phrases import stated

PHRASES = """
on Sunday -> sunday
next Friday morning -> next friday
Friday's weather -> friday
before Monday -> until monday
last Tuesday -> last tuesday
over the coming weekend -> weekend
this week -> 7
the week ahead -> 7
next week -> next week
in a week -> in 7 days
in two weeks' time -> in 14 days
in a couple of days -> in 2 days
for the next four days -> 4
a 5-day forecast -> 5
today or tomorrow -> tomorrow
tonight -> today
on 14 June -> 06-14
June 14th, 2027 -> 2027-06-14
the 3rd of May -> 05-03
2026-12-01 -> 2026-12-01
in July -> july
on Christmas Eve -> 12-24
New Year's Eve -> 12-31
jutro rano -> tomorrow
pojutrze wieczorem -> day after tomorrow
w najbliższą niedzielę -> sunday
w przyszłym tygodniu -> next week
w zeszłą środę -> last wednesday
do soboty -> until saturday
za tydzień -> in 7 days
za trzy dni -> in 3 days
na najbliższe pięć dni -> 5
14 czerwca -> 06-14
w dniu 14.06 -> 06-14
dnia 14.06 -> 06-14
w lipcu -> july
w sylwestra -> 12-31
right now -> None
rain or sun -> None
w Środzie Wielkopolskiej -> None
w Sobótce -> None
New York -> None
May I ask -> None
"""


@pytest.mark.parametrize("line", PHRASES.strip().splitlines())
def test_phrases(line: str) -> None:
    text, _, expected = line.partition(" -> ")
    found = stated(text)
    assert str(found.days or found.day) == expected
    assert len(found.text) == len(text)


def test_phrases_are_replaced_where_they_were() -> None:
    assert stated("Oslo tomorrow rain").text == "Oslo |        rain"
    assert stated("w Krakowie w piątek?").text == "w Krakowie |       ?"


@pytest.mark.parametrize("piece", ["in ", "on the next ", "1 ", "next 3 ", "w ten ", "do ", "may 1", "20"])
def test_repeated_words_take_no_time(piece: str) -> None:
    began = time.process_time()
    stated((piece * 500)[:1000])
    assert time.process_time() - began < 0.2
