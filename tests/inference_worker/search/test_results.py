from __future__ import annotations

import pytest

from inference_worker.search import regular_expressions
from inference_worker.search.results import MAX_RESULT, extract_results, last_boxed, normal_form, value_at
from router.messages import Extraction, ExtractionKind


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Paris.", " paris"),
        ("two  words", "Two\nwords"),
        (r"\text{Yes}", "yes"),
        ("$x^2$", "x^2"),
        ("**B**", "b"),
        (r"\left( 3, 4 \right)", "( 3, 4 )"),
        (r"\dfrac{x}{2}", r"\frac{x}{2}"),
        ("0.50", r"\frac{1}{2}"),
        ("50%", "1/2"),
        ("1,000", "1 000,0"),
        ("-0", "0"),
        (r"$\frac{2}{6}$", "1/3"),
        ("x = 3", "3"),
        (r"f(X) = \frac12", "0.5"),
        (r"\theta_{1}=30^\circ", "30"),
    ],
)
def test_equal_results_have_one_normal_form(one: str, other: str) -> None:
    assert normal_form(one) == normal_form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.5", "15"),
        ("5 apples", "5 pears"),
        ("-1", "1"),
        ("1,2", "12"),
        ("(1, 2)", "(2, 1)"),
        ("x", "y"),
        ("x = 3", "x = 4"),
        ("x > 3", "3"),
        ("1e2", "12"),
    ],
)
def test_different_results_have_different_normal_forms(one: str, other: str) -> None:
    assert normal_form(one) != normal_form(other)


def test_a_long_result_is_cut() -> None:
    assert len(normal_form("ab " * 1000)) == MAX_RESULT


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{1} and \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{3}, cut off: \boxed{4", "3"),
        (r"\boxed{\{1\}}", r"\{1\}"),
        (r"} { \boxed {a}", "a"),
        (r"\boxed{a \boxed{b}}", "b"),
        ("none", None),
        (r"\boxed{", None),
    ],
)
def test_last_boxed(text: str, content: str | None) -> None:
    assert last_boxed(text) == content


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ('{"answer": {"value": [1, 2.50]}}', "answer.value.1", "2.50"),
        ('```json\n{"a": "x"}\n```', "a", "x"),
        ('{"a": {"c": 1, "b": 2}}', "a", '{"b": "2", "c": "1"}'),
        ("[true]", "0", "true"),
        ("5", "", "5"),
        ("[1]", "1", None),
        ("[1]", "²", None),
        ('{"a": 1}', "b", None),
        ('{"a": 1}', "a.b", None),
        ("{", "a", None),
        ("[" * 100_000, "0", None),
        ("```" + "\n" * 100_000 + "x", "a", None),
        (r'{"a": "\ud800b \ud83d\ude00"}', "a", "?b 😀"),
        (r'{"a": ["\udfff"]}', "a", '["?"]'),
    ],
)
def test_value_at_a_path(text: str, path: str, value: str | None) -> None:
    assert value_at(text, path) == value


@pytest.mark.parametrize(
    ("extraction", "results"),
    [
        (Extraction(), ["4", "0.5", None]),
        (Extraction(kind=ExtractionKind.BOXED), ["4", None, None]),
        (Extraction(kind=ExtractionKind.REGEX, pattern=r"is (\S+)"), ["\\boxed{4}", "0.5", None]),
        (Extraction(kind=ExtractionKind.REGEX, pattern="("), [None, None, None]),
        (Extraction(kind=ExtractionKind.TEXT), ["it is \\boxed{4}", "so it is 1/2", None]),
        (Extraction(kind=ExtractionKind.JSON_PATH, pattern="a"), [None, None, None]),
    ],
)
def test_results_of_answers(extraction: Extraction, results: list[str | None]) -> None:
    assert extract_results([r"It is \boxed{4}", "So it is 1/2.", "  "], extraction) == results


def test_texts_after_one_that_takes_too_long_have_no_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_expressions, "MATCH_TIMEOUT", 0.01)
    slow = Extraction(kind=ExtractionKind.REGEX, pattern="(?:a|aa)+$|b")
    assert extract_results(["b", "a" * 4000 + "c", "b"], slow) == ["b", None, None]
