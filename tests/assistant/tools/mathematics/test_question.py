"""Arguments from questions in English and Polish, and questions that state no calculation."""

from __future__ import annotations

import time
from typing import Any

import pytest

from assistant.tools.mathematics.question import arguments_of, asks_to_calculate

STATED: list[tuple[str, str, str, str, dict[str, Any]]] = [
    ("pl", "oblicz całkę z x^2 sin x", "integrate", "x^2 sin x", {}),
    ("en", "what is the derivative of x^3 + 2x?", "differentiate", "x^3 + 2x", {}),
    ("pl", "rozwiąż x^2 - 5x + 6 = 0", "solve", "x^2 - 5x + 6 = 0", {}),
    ("pl", "ile to jest 15% z 240", "evaluate", "15% * 240", {}),
    ("en", "What is 15 percent of 240?", "evaluate", "15% * 240", {}),
    ("en", "what's 2+2", "evaluate", "2+2", {}),
    ("en", "Solve 2x + 3 = 7 for x", "solve", "2x + 3 = 7", {"variable": "x"}),
    ("en", "Solve for x: 2x + 3 = 7", "solve", "2x + 3 = 7", {"variable": "x"}),
    ("en", "2x + 3 = 7, find x", "solve", "2x + 3 = 7", {}),
    ("pl", "Rozwiąż układ równań x+y=3 i x-y=1", "solve", "x+y=3; x-y=1", {}),
    ("en", "integrate x^2 from 0 to 1", "integrate", "x^2", {"lower": "0", "upper": "1"}),
    ("pl", "Oblicz całkę oznaczoną z x^2 od 0 do 1", "integrate", "x^2", {"lower": "0", "upper": "1"}),
    ("en", "Integrate cos(x) between 0 and pi/2", "integrate", "cos(x)", {"lower": "0", "upper": "pi/2"}),
    ("en", "What is the integral of t^2 with respect to t", "integrate", "t^2", {"variable": "t"}),
    ("en", "∫ x^2 dx", "integrate", "x^2", {"variable": "x"}),
    ("pl", "Jaka jest druga pochodna funkcji f(x) = x^3?", "differentiate", "x^3", {"order": 2}),
    ("en", "Find the second derivative of sin(x)", "differentiate", "sin(x)", {"order": 2}),
    ("en", "d/dt t^2", "differentiate", "t^2", {"variable": "t"}),
    ("pl", "narysuj wykres funkcji y = x^2 - 1", "plot", "x^2 - 1", {}),
    ("pl", "Narysuj wykres sin x dla x od 0 do 2pi", "plot", "sin x", {"lower": "0", "upper": "2pi"}),
    ("en", "Draw the graph of y = 1/x", "plot", "1/x", {}),
    ("en", "Simplify sin(x)^2 + cos(x)^2", "simplify", "sin(x)^2 + cos(x)^2", {}),
    ("pl", "uprość (x^2-1)/(x-1)", "simplify", "(x^2-1)/(x-1)", {}),
    ("en", "Expand (x+1)^3", "expand", "(x+1)^3", {}),
    ("pl", "Rozłóż na czynniki x^2-5x+6", "factor", "x^2-5x+6", {}),
    ("pl", "Ile to jest 3,5 razy 2", "evaluate", "3,5 * 2", {}),
    ("pl", "ile wynosi pierwiastek z 144?", "evaluate", "sqrt 144", {}),
    ("pl", "silnia z 5", "evaluate", "factorial 5", {}),
    ("en", "12*13=?", "evaluate", "12*13", {}),
    ("en", "2+2", "evaluate", "2+2", {}),
    ("en", "x^2 = 4", "solve", "x^2 = 4", {}),
    ("pl", "ile to dwa plus dwa", "evaluate", "2 + 2", {}),
    ("en", "how much is 1,200 / 7", "evaluate", "1,200 / 7", {}),
    ("pl", "Rozwiąż nierówność x^2 < 4", "solve", "x^2 < 4", {}),
    ("en", "What's half of a third?", "evaluate", "(1/2) * (1/3)", {}),
    ("en", "product of 3, 4 and 5", "evaluate", "(3) * (4) * (5)", {}),
    ("en", "100 + 5%", "evaluate", "(100) * (1 + 5%)", {}),
    ("en", "Solve x^2 = 4 and show the steps.", "solve", "x^2 = 4", {}),
    ("en", "Integrate x^2*sin(x) and plot the result", "integrate", "x^2*sin(x)", {}),
    ("pl", "Scałkuj x^2*sin(x) i narysuj wykres wyniku", "integrate", "x^2*sin(x)", {}),
    ("pl", "Narysuj wykres x^2", "plot", "x^2", {}),
    ("en", "what is the sine of 30 degrees", "evaluate", "sin 30 °", {}),
    ("en", "18% of $245", "evaluate", "18% * 245", {}),
    ("pl", "ile jest dwa i pol razy 4", "evaluate", "(2+1/2) * 4", {}),
    ("pl", "dwadziescia piec procent z 80", "evaluate", "25% * 80", {}),
    ("pl", "policz calke z x^2", "integrate", "x^2", {}),
    ("pl", "wykres sinusa od 0 do 2pi", "plot", "sin(x)", {"lower": "0", "upper": "2pi"}),
]


@pytest.mark.parametrize(("language", "question", "operation", "expression", "more"), STATED)
def test_stated(language: str, question: str, operation: str, expression: str, more: dict[str, Any]) -> None:
    assert arguments_of(question, language) == {"operation": operation, "expression": expression, **more}


@pytest.mark.parametrize(
    ("language", "question"),
    [
        ("en", "what is the weather in London"),
        ("pl", "Jaka jest pogoda w Łodzi?"),
        ("en", "who was Ada Lovelace"),
        ("en", "what is a cat"),
        ("en", "expand the cat"),
        ("en", "solve my problem"),
        ("pl", "narysuj kota"),
        ("en", "what is love"),
        ("pl", "ile to kosztuje"),
        ("en", "hello"),
        ("en", "1939-1945"),
        ("en", "2026-11-24"),
        ("en", "draw a picture of a graph on a wall"),
        ("pl", "co to jest całka"),
        ("en", "What is a derivative?"),
        ("en", "I am 25 years old"),
        ("en", "the product of 37 and 58, then halve it"),
        ("en", "subtract 3 from 10, then double it"),
        ("en", "a pizza costs 5 dollars, what are 3 pizzas"),
        ("en", "what is 5 and 7"),
        ("en", "average of 3 and 5"),
        ("en", "convert 30 degrees Celsius to Fahrenheit"),
        ("en", "the product of 3 and 4 plus 2"),
        ("en", "round 3.14159 to two decimal places"),
        ("en", "Calculate the area of a circle with radius 7 cm."),
        ("pl", "Suma liczb parzystych od 2 do 100"),
        ("pl", "ile to jest 2 i (1/2) * 4"),
        ("pl", "ile to 3 i x"),
        ("pl", "Rower kosztował 1600 zł i staniał o jedną piątą, ile kosztuje teraz?"),
        ("pl", "ile lat ma Polska"),
        ("en", "factor in the costs"),
        ("en", "What is the plot of Hamlet?"),
        ("en", "what is e"),
        ("en", ""),
        ("pl", "oblicz __import__('os').system('ls')"),
        ("en", "x" * 5000),
    ],
)
def test_not_stated(language: str, question: str) -> None:
    assert arguments_of(question, language) is None


@pytest.mark.parametrize(
    "question",
    [
        "integrate x from " + "1" * 1400,
        "integrate " + "from 1 to " * 140,
        "solve" + " " * 1400 + "x",
        "roots of " * 160,
        "=?" * 700,
        "solve " + "x=1 and " * 180,
        "1," * 700,
        "what is " + "y = " * 350,
        "sum of 1, " * 150,
        "find i need " * 120,
        "((((" * 350,
        "((((" * 25_000,
        "in " * 30_000,
    ],
)
def test_long_questions_take_no_time(question: str) -> None:
    began = time.process_time()
    arguments_of(question, "en")
    asks_to_calculate(question, "en")
    assert time.process_time() - began < 0.2


@pytest.mark.parametrize(
    ("language", "question"),
    [
        ("en", "A train covers 210 km in 2.5 hours. What is its average speed?"),
        ("en", "Calculate the area of a circle with radius 7 cm."),
        ("pl", "Jakie jest pole trójkąta o podstawie osiem i wysokości pięć?"),
    ],
)
def test_questions_that_ask_to_calculate(language: str, question: str) -> None:
    assert asks_to_calculate(question, language)


@pytest.mark.parametrize(
    "question",
    ["solve my problem", "I am 25 years old", "what happened between 1914 and 1918?", "co to jest całka", ""],
)
def test_questions_that_ask_for_no_calculation(question: str) -> None:
    assert not asks_to_calculate(question, "en")
