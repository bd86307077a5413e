"""Arithmetic in words."""

from __future__ import annotations

import time

import pytest

from assistant.tools.mathematics.spoken import with_changes, written


@pytest.mark.parametrize(
    ("text", "notation"),
    [
        ("sum of 3, 5 and 9", "(3) + (5) + (9)"),
        ("the product of 37 and 58", "(37) * (58)"),
        ("difference between 100 and 37", "(100) - (37)"),
        ("subtract 17 from 40", "(40) - (17)"),
        ("multiply x+1 by x-1", "(x+1) * (x-1)"),
        ("divide 144 by 12", "(144) / (12)"),
        ("increase 200 by 15 percent", "(200) * (1 + 15%)"),
        ("20% off 80", "(80) * (1 - 20%)"),
        ("greatest common divisor of 48 and 36", "gcd(48; 36)"),
        ("log base 2 of 1024", "log(1024; 2)"),
        ("remainder of 17 divided by 5", "mod(17; 5)"),
        ("sum of the integers from 1 to 500", "sum(n; n; 1; 500)"),
        ("2 to the tenth", "2^10"),
        ("x to the 4th power", "x^4"),
        ("suma 3, 5 i 9", "(3) + (5) + (9)"),
        ("odejmij 17 od 40", "(40) - (17)"),
        ("podziel 144 przez 12", "(144) / (12)"),
        ("zmniejsz 200 o 15 procent", "(200) * (1 - 15%)"),
        ("nwd liczb 48 i 36", "nwd(48; 36)"),
        ("podnieś 7 do trzeciej potęgi", "7^3"),
        ("3 do czwartej", "3^4"),
        ("sine of pi/6", "sine of (pi/6)"),
        ("square root of 16/4 plus 1", "square root of (16/4) plus 1"),
        ("sinus pi/6", "sinus (pi/6)"),
        ("2x + 3 = 7", "2x + 3 = 7"),
    ],
)
def test_phrases(text: str, notation: str) -> None:
    assert " ".join(written(text).split()) == notation


@pytest.mark.parametrize(
    "text",
    [
        "product of 37 and 58, then halve it",
        "subtract 3 from 10, then double it",
        "sum of squares",
        "product of 3 and 4 plus 2",
        "divide 10 by 2 plus 3",
        "20% off 50 plus 5",
        "sum of 3 and 4 divided by 7",
        "suma 3 i 4 razy 2",
    ],
)
def test_phrases_that_go_on_stay(text: str) -> None:
    assert written(text) == text


def test_a_percentage_behind_a_sum_is_a_part_of_what_is_before() -> None:
    assert "".join(with_changes("80 + 20%").split()) == "(80)*(1+20%)"
    assert with_changes("50% + 20%") == "50% + 20%"
    assert with_changes("80 * 20%") == "80 * 20%"


@pytest.mark.parametrize("piece", ["sum of ", "add 1 and ", "1, ", "multiply by ", "(", "% ", "to the 4th ", "1 + "])
def test_long_texts_take_no_time(piece: str) -> None:
    text = (piece * 1500)[:1500]
    began = time.process_time()
    with_changes(written(text))
    assert time.process_time() - began < 0.2
