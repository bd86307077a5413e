"""Parser of expressions: its grammar, and that every text is either read or refused with a sentence."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.tools.mathematics import real_function
from assistant.tools.mathematics.latex import latex
from runtime.mathematics.errors import ExpressionRefused, Problem
from runtime.mathematics.expression import Binary, Call, Name, Negation, Node, Number, Relation
from runtime.mathematics.parser import parse, parse_expression

X, TWO = Name("x"), Number(Fraction(2))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2x", "2*x"),
        ("2 x y", "2*x*y"),
        ("4ac", "4*a*c"),
        ("xe^x", "x*e^x"),
        ("x^2y", "(x^2)*y"),
        ("-x^2", "-(x^2)"),
        ("2^-1", "2^(-1)"),
        ("2^3^2", "2^(3^2)"),
        ("2**3", "2^3"),
        ("x² − 5·x", "x^2 - 5*x"),
        ("x⁻¹²", "x^(-12)"),
        ("1/2x", "(1/2)*x"),
        ("10÷2", "10/2"),
        ("2(x+1)(x-1)", "2*(x+1)*(x-1)"),
        ("sin x", "sin(x)"),
        ("sin 2x cos x", "sin(2*x)*cos(x)"),
        ("sinx", "sin(x)"),
        ("xsinx", "x*sin(x)"),
        ("sin^2 x", "sin(x)^2"),
        ("sin^-1(x)", "asin(x)"),
        ("ln x (x+1)", "ln(x)*(x+1)"),
        ("sqrt 2 x", "sqrt(2*x)"),
        ("√2x", "sqrt(2)*x"),
        ("√(2x)", "sqrt(2*x)"),
        ("|x-1|", "abs(x-1)"),
        ("2|x|", "2*abs(x)"),
        ("||x|-1|", "abs(abs(x)-1)"),
        ("5!", "factorial(5)"),
        ("2^3!", "2^factorial(3)"),
        ("15%", "15/100"),
        ("30°", "30*(pi/180)"),
        ("2π", "2*pi"),
        ("log_2(8)", "log2(8)"),
        ("SIN(x)", "sin(x)"),
        ("- - 2", "2"),
    ],
)
def test_notations(text: str, same: str) -> None:
    assert parse(text, "en") == parse(same, "en")


def test_trees() -> None:
    assert parse_expression("2x", "en") == Binary("*", TWO, X)
    assert parse_expression("-x", "en") == Negation(X)
    assert parse("x = 2", "en") == (Relation("=", X, TWO),)
    assert parse_expression("x1 + x_2", "en") == Binary("+", Name("x_1"), Name("x_2"))
    assert parse_expression("log x", "en") == Call("ln", (X,))
    assert parse_expression("log x", "pl") == Call("log10", (X,))
    assert parse_expression("3.50", "en") == Number(Fraction(7, 2), decimal=True)


@pytest.mark.parametrize(
    ("text", "language", "value"),
    [
        ("3,14", "pl", "3.14"),
        ("3.14", "pl", "3.14"),
        ("1,234,567", "en", "1234567"),
        ("1 234 567,5", "pl", "1234567.5"),
        ("1\u00a0000", "en", "1000"),
        ("2e-3", "en", "0.002"),
        (".5", "en", "0.5"),
    ],
)
def test_numbers(text: str, language: str, value: str) -> None:
    found = parse_expression(text, language)
    assert isinstance(found, Number)
    assert found.value == Fraction(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "2 +",
        "(2",
        "2)",
        "2 3",
        "[x+1]2",
        "x = ",
        "= 2",
        "x = 1 = 2",
        "x..y",
        "x.y",
        "x._real",
        "__import__('os')",
        "eval(1)",
        "foo",
        "x @ y",
        "x & y",
        "x if y else z",
        "[1 for x in y]",
        "{1: 2}",
        "'a'",
        '"a"',
        "x[0].y",
        'f"{x}"',
        "х + 1",  # Cyrillic
        "１ + 1",  # full width
        "sin",
        "sin()",
        "sin(1, 2)",
        "root(2)",
        "sum(k, 1, 2, 3)",
        "sum(k, pi, 2, 3)",
        "sin^x(2)",
        "2 % 3",
        "|x",
        "\\frac{1}{2}",
        "a;;b",
        "x := 2",
        "exec('1')",
        "open('/etc/passwd')",
        "x\x00y",
        "\ud800",
        "log(8,2",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(ExpressionRefused) as refused:
        parse(text, "en")
    assert not refused.value.problem.is_size


def test_a_comma_that_may_be_either_is_refused() -> None:
    with pytest.raises(ExpressionRefused) as refused:
        parse("log(8,2)", "pl")
    assert refused.value.problem is Problem.AMBIGUOUS_COMMA
    assert parse("log(8, 2)", "pl") == parse("log(8; 2)", "pl") == parse("log(8,2)", "en")


@pytest.mark.parametrize(
    "text",
    [
        "1" * 2_000,
        "1+" * 400 + "1",
        "(" * 300 + "1" + ")" * 300,
        "2^" * 200 + "2",
        "√" * 400 + "2",
        "x;" * 20 + "x",
        "1e999",
    ],
)
def test_too_large(text: str) -> None:
    with pytest.raises(ExpressionRefused) as refused:
        parse(text, "en")
    assert refused.value.problem.is_size


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["en", "pl"]))
def test_any_text_is_read_or_refused(text: str, language: str) -> None:
    _read_or_refuse(text, language)


@settings(max_examples=500, deadline=None)
@given(st.text("0123456789.,;xyzeipnst()[]+-*/^=<>|!%°√²⁻ ", max_size=80), st.sampled_from(["en", "pl"]))
def test_any_text_of_mathematical_characters_is_read_or_refused(text: str, language: str) -> None:
    _read_or_refuse(text, language)


def _read_or_refuse(text: str, language: str) -> None:
    began = time.thread_time()
    try:
        for each in parse(text, language):
            assert latex(each)
    except ExpressionRefused:
        pass
    assert time.thread_time() - began < 2


LEAVES = st.one_of(st.integers(0, 99).map(str), st.sampled_from(["x", "y", "pi", "2.5"]))
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda each: f"(-{each})"),
        inner.map(lambda each: f"{each}^2"),
        st.tuples(st.sampled_from(["sin", "atan", "abs", "cbrt"]), inner).map(lambda parts: f"{parts[0]}({parts[1]})"),
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS)
def test_values_are_those_of_python(text: str) -> None:
    values = {"x": 0.7, "y": -1.3}
    found = real_function.value(_one(text), values)
    names = {name: real_function._FUNCTIONS[name] for name in ("sin", "atan", "abs", "cbrt")}
    try:
        expected = eval(text.replace("^2", "**2.0"), {"__builtins__": {}}, {**names, **values, "pi": 3.141592653589793})
    except ArithmeticError:
        assert found is None
        return
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def _one(text: str) -> Node:
    return parse_expression(text, "en")
