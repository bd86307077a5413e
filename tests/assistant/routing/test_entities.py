"""What earlier turns were about."""

from __future__ import annotations

import pytest

from assistant.routing.entities import (
    Place,
    document,
    expression,
    last_person,
    last_place,
    last_topic,
    lower_case_places,
    names,
    places,
    subject,
)
from assistant.turn import Turn


def after(question: str, answer: str = "") -> list[Turn]:
    return [Turn("user", question), Turn("assistant", answer)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Who wrote The Master and Margarita?", ["Master and Margarita"]),
        ("Odkryła je Maria Skłodowska-Curie z mężem Piotrem.", ["Maria Skłodowska-Curie", "Piotrem"]),
        ("Rome was founded in 753 BC.", ["Rome", "BC"]),
        ("Will it rain on Sunday?", []),
        ("", []),
    ],
)
def test_names(text: str, found: list[str]) -> None:
    assert names(text) == found


def test_places() -> None:
    assert places("Is it cold in New York and w Łodzi?") == [
        Place("New York", "in New York"),
        Place("Łodzi", "w Łodzi"),
    ]
    assert places("in June") == []
    assert lower_case_places("weather in krakow tomorrow") == [Place("krakow", "in krakow")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("differentiate x^2 * e^x", "x^2 * e^x"),
        ("ile to 945 + 35?", "945 + 35"),
        ("całka z sin(x)^2 dx", "sin(x)^2"),
        ("a quick question", ""),
    ],
)
def test_expressions(text: str, found: str) -> None:
    assert expression(text) == found


def test_documents() -> None:
    assert document("What does my employment contract say?") == "my employment contract"
    assert document("Streść umowę najmu, którą wgrałem") == "umowę najmu"
    assert document("What is a quasar?") == ""


def test_the_answer_names_what_the_question_asked_for() -> None:
    assert (
        last_topic(after("What is the capital of Mongolia?", "The capital of Mongolia is Ulaanbaatar."))
        == "Ulaanbaatar"
    )
    assert last_person(after("Who wrote Solaris?", "Solaris was written by Stanisław Lem.")) == "Stanisław Lem"


def test_the_question_names_its_topic() -> None:
    assert last_topic(after("What are quasars?", "Bright objects.")) == "quasars"
    assert last_person(after("Who was Kepler?", "An astronomer from Germany.")) == "Kepler"
    assert last_place(after("Gdzie leży Toruń?", "Nad Wisłą.")) == Place("Toruń")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Tell me something interesting about hedgehogs", "hedgehogs"),
        ("Powiedz mi coś o jeżach", "jeżach"),
        ("tell me a joke", ""),
        ("opowiedz mi dowcip", ""),
    ],
)
def test_what_is_told_about_is_a_subject_but_not_what_is_told(text: str, found: str) -> None:
    assert subject(after(text, "Ha.")) == found


def test_the_last_turn_counts_first() -> None:
    history = [*after("Tell me about Oslo"), *after("Tell me about Turku"), *after("thanks")]
    assert last_place(history) == Place("Turku")
    assert last_place(after("hello", "hi")) is None
