from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_worker.search.events import Compare
from inference_worker.search.mathematics import MAX_ELEMENTS, Answer, comparison, read_answer
from inference_worker.search.results import MAX_RESULT, normal_form
from router.messages import ExtractionKind
from runtime.mathematics.parser import parse_expression
from tests.runtime.mathematics.test_bounds import REFUSED

BOXED = ExtractionKind.BOXED


@pytest.mark.parametrize(
    ("result", "kind", "elements"),
    [
        ("7", "", ["7"]),
        (r"\frac{x}{2}", "", ["x/2"]),
        (r"x = \sqrt{2}", "", ["sqrt(2)"]),
        (r"f(x) = x^2", "", ["x^2"]),
        (r"x \in \{1, 2\}", "", ["1", "2"]),
        ("1, 2", "", ["1", "2"]),
        ("x=1,x=2", "", ["1", "2"]),
        ("x = 1 or x = 2", "", ["1", "2"]),
        ("1,234x", "", ["1234*x"]),
        ("1; 2", "", ["1", "2"]),
        (r"1 \pm \sqrt{2}", "", ["1 + sqrt(2)", "1 - sqrt(2)"]),
        (r"\pm 1 \mp x", "", ["+1 - x", "-1 + x"]),
        ("(1, 2)", "()", ["1", "2"]),
        ("(x, y) = (1, 2)", "()", ["1", "2"]),
        ("[0, 1)", "[)", ["0", "1"]),
        ("(x+1)(x-1)", "", ["(x+1)(x-1)"]),
        ("(b)", "", ["b"]),
        ("y = 2, x = 1", "x,y", ["1", "2"]),
        ("max(1, x)", "", ["max(1; x)"]),
        ("pi", "", ["pi"]),
    ],
)
def test_results_that_are_mathematics(result: str, kind: str, elements: list[str]) -> None:
    assert read_answer(result) == Answer(kind, tuple(parse_expression(each, "en") for each in elements))


@pytest.mark.parametrize(
    "result",
    [
        "",
        "paris",
        "no solution",
        "x y",
        "3-5",
        "2026-11-26",
        "12:30",
        "a:b",
        "+48 123-456",
        "covid-19",
        "(0, 1) \\cup (2, 3)",
        "7 \\pmod{3}",
        "x + ",
        "1, x +",
        "x > 2",
        "9^{9^9}",
        "__import__('os')",
        "x" + "+x" * (MAX_RESULT // 2),
        "x," * MAX_ELEMENTS + "x",
        *REFUSED,
    ],
)
def test_other_results_are_no_mathematics(result: str) -> None:
    began = time.thread_time()
    assert read_answer(normal_form(result)) is None
    assert time.thread_time() - began < 2


@settings(max_examples=500, deadline=None)
@given(st.text(r"0123456789.,;xyzeip nst()[]{}\+-*/^=_!%°√²|", max_size=MAX_RESULT))
def test_any_text_of_mathematical_characters_is_read_or_refused(text: str) -> None:
    read_answer(normal_form(text))


def test_results_that_may_be_equal_are_compared() -> None:
    new = [r"\frac{x}{2}", None, "0.5x", "paris", "0.5x", "known+1"]
    assert comparison(["x", "x/3", None, "x"], new, BOXED) == Compare(["x", "x/3"], [r"\frac{x}{2}", "0.5x"])
    assert comparison([r"\sqrt{9}"], ["3"], BOXED) == Compare([r"\sqrt{9}"], ["3"])


@pytest.mark.parametrize(
    ("known", "new"),
    [
        (["0.5", "3"], ["7", "-1/3"]),
        (["a"], ["b", "c"]),
        (["paris"], ["x + 1", "london"]),
        (["x + 1", "x + 2"], ["x + 1", None]),
        ([], [r"\sqrt{2}"]),
    ],
)
def test_numbers_and_results_without_a_counterpart_are_not_compared(known: list[str], new: list[str | None]) -> None:
    assert comparison(known, new, BOXED) is None


@pytest.mark.parametrize("kind", [ExtractionKind.TEXT, ExtractionKind.REGEX, ExtractionKind.JSON_PATH])
def test_outside_of_boxes_only_typeset_mathematics_is_compared(kind: ExtractionKind) -> None:
    assert comparison([], ["a-1-2", "a-2-1"], kind) is None
    assert comparison([], ["e4 b5", "b5 e4"], kind) is None
    assert comparison(["3"], [r"\sqrt{9}"], kind) == Compare(["3"], [r"\sqrt{9}"])
    assert comparison([], ["(a+b)^2", "a^2+2ab+b^2"], kind) is not None
