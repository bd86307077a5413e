"""Evaluates expressions in floating point, samples the points of a plot, and finds a zero between two arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import median

from runtime.mathematics.bounds import integer
from runtime.mathematics.expression import Binary, Call, Name, Negation, Node, Number

MAX_POINTS = 400
_SAMPLES = 361
"""Sampled points; the rest of `MAX_POINTS` is for the poles between them."""
_STEPS = 60
"""Steps of the search for a pole between two points."""
_PEAK = 1e6
"""A pole's values grow beyond this multiple of the median."""

Point = tuple[float, float | None]


def _root(value: float, degree: float) -> float:
    if value < 0 and degree % 2 == 1:
        return -math.pow(-value, 1 / degree)
    return math.pow(value, 1 / degree)


_FUNCTIONS: dict[str, Callable[..., float]] = {
    **{name: getattr(math, name) for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")},
    **{
        name: getattr(math, name) for name in ("asinh", "acosh", "atanh", "exp", "log", "log10", "log2", "sqrt", "cbrt")
    },
    **{name: getattr(math, name) for name in ("gamma", "erf", "floor", "ceil")},
    "ln": math.log,
    "cot": lambda x: 1 / math.tan(x),
    "sec": lambda x: 1 / math.cos(x),
    "csc": lambda x: 1 / math.sin(x),
    "coth": lambda x: 1 / math.tanh(x),
    "acot": lambda x: math.atan(1 / x),
    "abs": abs,
    "sign": lambda x: math.copysign(1.0, x) if x else 0.0,
    "factorial": lambda x: math.gamma(x + 1),
    "binomial": lambda n, k: math.gamma(n + 1) / math.gamma(k + 1) / math.gamma(n - k + 1),
    "mod": lambda x, y: x - y * math.floor(x / y),
    "min": min,
    "max": max,
    "root": _root,
    "gcd": lambda *each: math.gcd(*(int(x) for x in each)),
    "lcm": lambda *each: math.lcm(*(int(x) for x in each)),
}


def value(node: Node, values: dict[str, float]) -> float | None:
    """Return the real value of an expression for the `values` of its variables; `None` if it has none there."""
    try:
        found = _value(node, values)
    except (ArithmeticError, ValueError, TypeError, KeyError):
        return None
    return float(found) if not isinstance(found, complex) and math.isfinite(found) else None


def _value(node: Node, values: dict[str, float]) -> float:
    if isinstance(node, Number):
        return float(node.value)
    if isinstance(node, Name):
        return {"pi": math.pi, "e": math.e}[node.name] if node.name in ("pi", "e") else values[node.name]
    if isinstance(node, Negation):
        return -_value(node.operand, values)
    if isinstance(node, Call):
        return _sum(node, values) if node.function == "sum" else _call(node, values)
    left = _value(node.left, values)
    if node.operator == "^":
        return _power(left, node.right, values)
    return _arithmetic(node, left, _value(node.right, values))


def _arithmetic(node: Binary, left: float, right: float) -> float:
    if node.operator == "+":
        return left + right
    if node.operator == "-":
        return left - right
    return left * right if node.operator == "*" else left / right


def _power(base: float, exponent: Node, values: dict[str, float]) -> float:
    power = _value(exponent, values)
    if power == 0.5:
        return math.sqrt(base)
    found: float = base**power
    return found


def _call(node: Call, values: dict[str, float]) -> float:
    return _FUNCTIONS[node.function](*(_value(each, values) for each in node.arguments))


def _sum(node: Call, values: dict[str, float]) -> float:
    body, index, first, last = node.arguments
    lowest, highest = integer(first), integer(last)
    if lowest is None or highest is None or not isinstance(index, Name):
        raise ValueError("the sum has no limits")
    return math.fsum(_value(body, {**values, index.name: float(number)}) for number in range(lowest, highest + 1))


def points(node: Node, variable: str, lowest: float, highest: float) -> list[Point]:
    """Return at most `MAX_POINTS` points (x, y) of an expression's graph over `variable`, from `lowest` to `highest`.

    y is `None` at poles and gaps.
    """

    def at(x: float) -> float | None:
        return value(node, {variable: x})

    step = (highest - lowest) / (_SAMPLES - 1)
    sampled: list[Point] = [(x, at(x)) for x in (_rounded(lowest + number * step, step) for number in range(_SAMPLES))]
    typical = median([abs(y) for _, y in sampled if y is not None] or [0.0]) + 1e-9
    found: list[Point] = []
    spare = MAX_POINTS - _SAMPLES
    for number, (x, y) in enumerate(sampled):
        if number and spare and (gap := _gap(at, sampled[number - 1], (x, y), typical)) is not None:
            found.append((gap, None))
            spare -= 1
        found.append((x, y))
    return found


def _rounded(x: float, step: float) -> float:
    """Return `x` without the error of its computation, so that a point meant to be 0 is 0."""
    return 0.0 if abs(x) < step * 1e-9 else float(format(x, ".12g"))


def _gap(at: Callable[[float], float | None], left: Point, right: Point, typical: float) -> float | None:
    """Return where between two neighbouring points the graph is interrupted; `None`: it seems to be continuous."""
    (low, y_low), (high, y_high) = left, right
    if y_low is None or y_high is None:
        return None
    if y_low * y_high < 0:
        return _sign_change(at, low, high, y_low, y_high)
    return _peak(at, low, high, min(abs(y_low), abs(y_high)), typical)


def _sign_change(
    at: Callable[[float], float | None], low: float, high: float, y_low: float, y_high: float
) -> float | None:
    """Return where the sign changes without a zero, as at the pole of `1/x`; `None`: there is a zero."""
    middle, y = _bisected(at, low, high, y_low)
    return middle if y is None or y > min(abs(y_low), abs(y_high)) / 2 else None


def crossing(at: Callable[[float], float | None], low: float, high: float, y_low: float) -> float | None:
    """Return the zero of the function `at` between two arguments at which its values have different signs.

    `None` if the graph is interrupted there, as at a pole.

    Args:
        at: returns the value at an argument.
        low, high: the two arguments.
        y_low: the value at `low`.
    """
    middle, y = _bisected(at, low, high, y_low)
    return middle if y is not None and y <= abs(y_low) / 2 else None


def _bisected(at: Callable[[float], float | None], low: float, high: float, y_low: float) -> tuple[float, float | None]:
    """Return where the sign changes, and the absolute value there; `None`: the function has no value there."""
    middle = low
    least = abs(y_low)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        y = at(middle)
        if y is None:
            return middle, None
        if y == 0 or middle in (low, high):
            return middle, abs(y)
        least = abs(y)
        if (y < 0) == (y_low < 0):
            low = middle
        else:
            high = middle
    return middle, least


def _peak(at: Callable[[float], float | None], low: float, high: float, least: float, typical: float) -> float | None:
    """Search a pole without a change of sign, as of `1/x^2`."""
    if least < 5 * typical:
        return None
    for _ in range(_STEPS):
        one, two = low + (high - low) / 3, high - (high - low) / 3
        y_one, y_two = at(one), at(two)
        if y_one is None or y_two is None:
            return one if y_one is None else two
        if max(abs(y_one), abs(y_two)) > _PEAK * (typical + least):
            return (low + high) / 2
        low, high = (low, two) if abs(y_one) > abs(y_two) else (one, high)
    return None
