from __future__ import annotations

import pytest

from inference_worker.search.equality import equals
from inference_worker.search.events import Compare
from inference_worker.search.results import normal_form


def equal(one: str, other: str) -> bool:
    one, other = normal_form(one), normal_form(other)
    return one == other or list(equals(Compare([one], [other]))) == [one]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\frac{\sqrt2}{2}", r"\dfrac{1}{\sqrt{2}}"),
        ("(a+b)^2", "a^2+2ab+b^2"),
        (r"\frac{x^2-1}{x-1}", "x+1"),
        ("x = 3", "3"),
        (r"x = \sqrt{9}", "3"),
        ("0.1x", r"\frac{x}{10}"),
        ("2^{10}", "1024"),
        (r"\sqrt{3+2\sqrt2}", r"1+\sqrt2"),
        (r"\sin^2 x + \cos^2 x", "1"),
        (r"\ln 8", r"3 \ln 2"),
        (r"\cos 20^\circ \cos 40^\circ \cos 80^\circ", r"\frac18"),
        (r"\sqrt{x^2}", "|x|"),
        (r"e^{i\pi}", "-1"),
        ("y = 2x + 1", "1 + 2x"),
        (r"\{1, 2\}", "2, 1"),
        (r"x = 1 \text{ or } x = 2", r"\left\{2, 1\right\}"),
        (r"1 \pm \sqrt2", r"1 - \sqrt2, 1 + \sqrt2"),
        ("(1, 1/2)", "(1,0.5)"),
        ("1,5; 2,5", "5/2; 3/2"),
        ("(1, 4/2]", "(1, 2]"),
        ("x = 1, y = 2", "y = 2, x = 1"),
    ],
)
def test_equal_results(one: str, other: str) -> None:
    assert equal(one, other)
    assert equal(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x + 1", "x + 2"),
        ("x", "y"),
        ("x", "-x"),
        ("|x|", "x"),
        (r"\sqrt2", "1.41421356"),
        ("(1, 2)", "(2, 1)"),
        ("[1, 2]", "(1, 2)"),
        ("1, 2", "1, 2, 2"),
        ("1, 1, 2", "1, 2, 2"),
        ("x = 1, y = 2", "x = 2, y = 1"),
        (r"\frac{x}{0}", r"\frac{y}{0}"),
        ("0/0*x", "1/0*x"),
        ("9^{9^9}", "9^{9^8}"),
    ],
)
def test_different_results(one: str, other: str) -> None:
    assert not equal(one, other)


def test_each_new_result_has_the_first_that_it_equals() -> None:
    command = Compare(["x", "y"], ["z", "x+0", "z+0", "x/2", "0.5x", "x*1"])
    assert list(equals(command)) == ["z", "x", "z", "x/2", "x/2", "x"]
