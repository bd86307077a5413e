"""Places and days that English and Polish questions about the weather state."""

from __future__ import annotations

import time

import pytest

from assistant.tools.weather_questions import asks_about_weather, weather_arguments

QUESTIONS = """
What's the weather in London? -> London
What is the weather like in New York tomorrow? -> New York / tomorrow
weather Paris -> Paris
Berlin weather -> Berlin
Weather forecast for Los Angeles for the next 3 days -> Los Angeles / 3
Will it rain in Seattle this weekend? -> Seattle / weekend
Is it cold in Oslo right now? -> Oslo
How hot is it in Dubai today? -> Dubai / today
what's the temperature in san francisco -> san francisco
Do I need an umbrella in Manchester tomorrow? -> Manchester / tomorrow
Is it going to snow in Springfield, Illinois on Friday? -> Springfield, Illinois / friday
What will the weather be on Monday in Rome? -> Rome / monday
Hey, can you check the forecast for St. Moritz please -> St. Moritz
I'm going to Lisbon, what is the weather in Lisbon and should I take a coat? -> Lisbon
Give me a five day forecast for Dublin -> Dublin / 5
Pogoda w Lądku -> Lądku
pogoda w Nowym Jorku -> Nowym Jorku
Jaka jest dziś pogoda we Wrocławiu? -> Wrocławiu / today
Jaka będzie jutro pogoda w Nowym Jorku? -> Nowym Jorku / tomorrow
Czy jutro będzie padać w Gdyni? -> Gdyni / tomorrow
czy pada w krakowie -> krakowie
Ile stopni jest teraz w Zakopanem? -> Zakopanem
prognoza pogody dla Bielska-Białej na 3 dni -> Bielska-Białej / 3
Pogoda Warszawa -> Warszawa
pogoda gdańsk jutro -> gdańsk / tomorrow
Jaka pogoda w weekend w Kazimierzu Dolnym? -> Kazimierzu Dolnym / weekend
Czy w Łodzi świeci słońce? -> Łodzi
Temperatura w Zielonej Górze w piątek -> Zielonej Górze / friday
Jak ciepło będzie w sobotę w Sopocie -> Sopocie / saturday
Pokaż prognozę na najbliższe 5 dni dla Jeleniej Góry -> Jeleniej Góry / 5
Czy w Atenach jest teraz gorąco i czy warto tam jechać? -> Atenach
pogoda na Helu pojutrze -> Helu / day after tomorrow
Czy potrzebuję parasola w Londynie? -> Londynie
Will the sun come out in Nice before Friday? -> Nice / until friday
My brother lives in Lyon. Is it cold in Oslo? -> Oslo
Is it going to rain at my house in Bristol -> Bristol
What Is The Weather In New York Today -> New York / today
weather in Washington DC on the 4th of July -> Washington DC / 07-04
w środzie wielkopolskiej pada? -> środzie wielkopolskiej
how's weather in king's lynn -> king's lynn
"""


@pytest.mark.parametrize("line", QUESTIONS.strip().splitlines())
def test_questions(line: str) -> None:
    question, _, expected = line.partition(" -> ")
    place, _, when = expected.partition(" / ")
    days: dict[str, object] = {"days": int(when)} if when.isdigit() else {"day": when} if when else {}
    assert weather_arguments(question) == {"place": place} | days


@pytest.mark.parametrize(
    "question",
    [
        "",
        "What is the weather?",
        "Tell me the weather",
        "I'm Anna, is it cold?",
        "Do I need to water my garden tomorrow?",
        "Jaka jest pogoda?",
        "Czy jutro będzie padać?",
        "Cześć, jestem Marek, jaka pogoda na rower?",
        "???",
    ],
)
def test_questions_without_a_place(question: str) -> None:
    assert weather_arguments(question) is None


def test_days_are_bounded() -> None:
    assert weather_arguments("weather in Rome for 90 days") == {"place": "Rome", "days": 7}
    assert weather_arguments("weather in Rome for 0 days") == {"place": "Rome", "days": 1}


@pytest.mark.parametrize(
    "piece", ["in ", "w A ", "the next ", "a, ", "weather ", "3 ", "on this next ", "in in ", "A of ", "((", "|"]
)
def test_long_questions_take_no_time(piece: str) -> None:
    began = time.process_time()
    weather_arguments(piece * 50_000)
    assert time.process_time() - began < 0.2


def test_questions_about_the_weather_are_known() -> None:
    assert asks_about_weather("Is it warm there now?")
    assert asks_about_weather("Czy będzie padać?")
    assert not asks_about_weather("Who was Ada Lovelace?")
