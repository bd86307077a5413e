"""Number words in digits."""

from __future__ import annotations

import time

import pytest

from assistant.tools.mathematics.numerals import with_digits


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("fifteen percent of two hundred and forty", "15 percent of 240"),
        ("twenty-five times four", "25 times 4"),
        ("two thousand five hundred and six", "2506"),
        ("five and seven", "5 and 7"),
        ("two three", "2 3"),
        ("nineteen ninety nine", "19 99"),
        ("one million", "1000000"),
        ("zero", "0"),
        ("three quarters minus two fifths", "(3/4) minus (2/5)"),
        ("half of 90", "(1/2) * 90"),
        ("a quarter of sixty", "(1/4) * 60"),
        ("two and a half", "(2+1/2)"),
        ("half-life", "half-life"),
        ("second derivative of x^2 - 5", "second derivative of x^2 - 5"),
    ],
)
def test_english(text: str, digits: str) -> None:
    assert with_digits(text, "en") == digits


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("dwadzieścia pięć razy cztery", "25 razy 4"),
        ("dwa tysiące pięćset", "2500"),
        ("tysiąc razy dwa", "1000 razy 2"),
        ("dziewięćset minus sto jeden", "900 minus 101"),
        ("dwie trzecie plus jedna szósta", "(2/3) plus (1/6)"),
        ("połowa z 90", "(1/2) * 90"),
        ("trzy i pół", "(3+1/2)"),
        ("ten wykres", "ten wykres"),
        ("druga pochodna", "druga pochodna"),
    ],
)
def test_polish(text: str, digits: str) -> None:
    assert with_digits(text, "pl") == digits


@pytest.mark.parametrize("piece", ["one ", "one hundred and ", "thousand ", "a ", "twenty-", "half "])
def test_long_texts_take_no_time(piece: str) -> None:
    began = time.process_time()
    with_digits((piece * 1500)[:1500], "en")
    assert time.process_time() - began < 0.2
