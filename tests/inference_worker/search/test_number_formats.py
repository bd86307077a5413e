from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_worker.search.number_formats import find_last_number, normal_number, read_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The answer is 1,234.50.", "1234.5"),
        ("It costs $1,234,567.", "1234567"),
        ("Wynik to 1 234,5 zł.", "1234.5"),
        ("Razem 12\u00a0345\u202f678,90 zł", "12345678.9"),
        ("zusammen 1.234.567,25", "1234567.25"),
        ("1'234.5 Franken", "1234.5"),
        ("około 12,5", "12.5"),
        ("0,125", "0.125"),
        ("1,234", "1234"),
        ("1.234", "1.234"),
        ("1{,}234", "1234"),
        (r"1\,234", "1234"),
        ("x-5", "5"),
        ("a = -5", "-5"),
        ("(−5)", "-5"),
        ("a loss of -$5", "-5"),
        ("a loss of $-5", "-5"),
        ("5–10", "10"),
        ("+7", "7"),
        ("-1 234", "-1234"),
        ("3/4 of it", "0.75"),
        ("-1/3", "-1/3"),
        ("on 12/05/2020", "2020"),
        ("one of 1,2,3", "3"),
        ("50%", "0.5"),
        (r"12.5\%", "0.125"),
        (r"\frac{3}{4}", "0.75"),
        (r"-\dfrac{1}{2}", "-0.5"),
        (r"1\frac12", "1.5"),
        ("1e3", "1000"),
        ("3 × 10^5", "300000"),
        (r"3 \times 10^{-2}", "0.03"),
        ("2^10 = 1024", "1024"),
        ("first 42. Then none", "42"),
        ("**42**", "42"),
        ("$.5$", "0.5"),
        ("007", "7"),
        ("5zł", "5"),
        ("7 or 1/0", "7"),
        ("H2O, x2 and v1", None),
        ("none", None),
        ("9" * 100, None),
        ("1e999", None),
    ],
)
def test_last_number(text: str, number: str | None) -> None:
    found = find_last_number(text)
    assert (found if found is None else normal_number(found)) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5 km", "5"),
        ("3 cm^2", "3"),
        (r"5 \text{ apples}", "5"),
        (r"90^\circ", "90"),
        ("12 zł", "12"),
        ("1 200,50 PLN", "1200.5"),
        (r"\$12.00", "12"),
        ("5 apples", None),
        ("1,2,3", None),
        ("(3, 4)", None),
        ("x = 5", None),
        ("", None),
    ],
)
def test_a_text_is_a_number_with_a_known_unit_or_not_one(text: str, number: str | None) -> None:
    found = read_number(text)
    assert (found if found is None else normal_number(found)) == number


@given(st.decimals(min_value=-(10**12), max_value=10**12, places=3))
def test_normal_forms_are_read_as_the_same_number(value: object) -> None:
    number = Fraction(str(value))
    assert read_number(normal_number(number)) == number
    assert "." not in normal_number(number) or normal_number(number)[-1] != "0"


@given(st.fractions(max_denominator=10**6))
def test_normal_forms_of_fractions_are_read_as_the_same_number(value: Fraction) -> None:
    assert read_number(normal_number(value)) == value


@given(st.integers(0, 10**12), st.integers(0, 99))
def test_english_and_polish_notations_agree(whole: int, hundredths: int) -> None:
    english = f"{whole:,}.{hundredths:02}"
    polish = english.replace(",", "\u00a0").replace(".", ",")
    assert read_number(english) == read_number(polish) == Fraction(whole * 100 + hundredths, 100)
