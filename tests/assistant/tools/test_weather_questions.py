"""Places and days that English and Polish questions about the weather state."""

from __future__ import annotations

import time

import pytest

from assistant.tools.weather_questions import weather_arguments

QUESTIONS = """
What's the weather in London? -> London
What is the weather like in New York tomorrow? -> New York 2
weather Paris -> Paris
Berlin weather -> Berlin
Weather forecast for Los Angeles for the next 3 days -> Los Angeles 3
Will it rain in Seattle this weekend? -> Seattle 7
Is it cold in Oslo right now? -> Oslo
How hot is it in Dubai today? -> Dubai 1
what's the temperature in san francisco -> san francisco
Do I need an umbrella in Manchester tomorrow? -> Manchester 2
Is it going to snow in Springfield, Illinois on Friday? -> Springfield, Illinois 7
What will the weather be on Monday in Rome? -> Rome 7
Hey, can you check the forecast for St. Moritz please -> St. Moritz
I'm going to Lisbon, what is the weather in Lisbon and should I take a coat? -> Lisbon
Give me a five day forecast for Dublin -> Dublin 5
Pogoda w Lądku -> Lądku
pogoda w Nowym Jorku -> Nowym Jorku
Jaka jest dziś pogoda we Wrocławiu? -> Wrocławiu 1
Jaka będzie jutro pogoda w Nowym Jorku? -> Nowym Jorku 2
Czy jutro będzie padać w Gdyni? -> Gdyni 2
czy pada w krakowie -> krakowie
Ile stopni jest teraz w Zakopanem? -> Zakopanem
prognoza pogody dla Bielska-Białej na 3 dni -> Bielska-Białej 3
Pogoda Warszawa -> Warszawa
pogoda gdańsk jutro -> gdańsk 2
Jaka pogoda w weekend w Kazimierzu Dolnym? -> Kazimierzu Dolnym 7
Czy w Łodzi świeci słońce? -> Łodzi
Temperatura w Zielonej Górze w piątek -> Zielonej Górze 7
Jak ciepło będzie w sobotę w Sopocie -> Sopocie 7
Pokaż prognozę na najbliższe 5 dni dla Jeleniej Góry -> Jeleniej Góry 5
Czy w Atenach jest teraz gorąco i czy warto tam jechać? -> Atenach
pogoda na Helu pojutrze -> Helu 3
Czy potrzebuję parasola w Londynie? -> Londynie
"""


@pytest.mark.parametrize("line", QUESTIONS.strip().splitlines())
def test_questions(line: str) -> None:
    question, _, expected = line.partition(" -> ")
    place, _, days = expected.rpartition(" ") if expected[-1].isdigit() else (expected, "", "")
    assert weather_arguments(question) == {"place": place} | ({"days": int(days)} if days else {})


@pytest.mark.parametrize(
    "question",
    ["", "What is the weather?", "Tell me the weather", "Jaka jest pogoda?", "Czy jutro będzie padać?", "???"],
)
def test_questions_without_a_place(question: str) -> None:
    assert weather_arguments(question) is None


def test_days_are_bounded() -> None:
    assert weather_arguments("weather in Rome for 90 days") == {"place": "Rome", "days": 7}
    assert weather_arguments("weather in Rome for 0 days") == {"place": "Rome", "days": 1}


@pytest.mark.parametrize("piece", ["in ", "w A ", "the next ", "a, ", "weather ", "3 ", "on this next "])
def test_long_questions_take_no_time(piece: str) -> None:
    began = time.perf_counter()
    weather_arguments(piece * 20_000)
    assert time.perf_counter() - began < 0.5
