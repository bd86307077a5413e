"""Writes an expression of the mathematics tool as LaTeX, in the form in which the person typed it."""

from __future__ import annotations

from runtime.mathematics.expression import Binary, Call, Name, Negation, Number, Relation, Statement
from runtime.mathematics.functions import GREEK

_SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(5)
"""Precedences."""
_RELATIONS = {"=": "=", "<": "<", "<=": r"\leq", ">": ">", ">=": r"\geq"}
_COMMANDS = {
    **{name: rf"\{name}" for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth")},
    **{name: rf"\{name}" for name in ("exp", "ln", "gcd", "min", "max")},
    "asin": r"\arcsin",
    "acos": r"\arccos",
    "atan": r"\arctan",
    "gamma": r"\Gamma",
    "log10": r"\log_{10}",
    "log2": r"\log_{2}",
}
_POWERS = frozenset({"sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth", "ln"})
"""Functions whose power is written after their name."""
_TEMPLATES = {
    "abs": r"\left| %s \right|",
    "floor": r"\left\lfloor %s \right\rfloor",
    "ceil": r"\left\lceil %s \right\rceil",
    "sqrt": r"\sqrt{%s}",
    "cbrt": r"\sqrt[3]{%s}",
    "binomial": r"\binom{%s}{%s}",
}
"""Notation of functions that is not their name with arguments."""
_CONSTANTS = {"pi": r"\pi", "oo": r"\infty", "e": "e", "i": "i"}


def latex(node: Statement) -> str:
    """Return the LaTeX of an expression or equation, not simplified."""
    if isinstance(node, Relation):
        return f"{latex(node.left)} {_RELATIONS[node.operator]} {latex(node.right)}"
    return _written(node)[0]


def factor(node: Statement) -> str:
    """Return the LaTeX of an expression as a factor of a product, so that a sum is in parentheses."""
    return _within(node, _PRODUCT)


def variable(name: str) -> str:
    """Return the LaTeX of a variable's name, such as `x`, `x_1` or `alpha`."""
    letters, _, index = name.partition("_")
    written = rf"\{letters}" if letters in GREEK else letters
    return f"{written}_{{{index}}}" if index else written


def _written(node: Statement) -> tuple[str, int]:
    """Return the LaTeX of a node and its precedence."""
    if isinstance(node, Number):
        return _number(node)
    if isinstance(node, Name):
        return _CONSTANTS.get(node.name) or variable(node.name), _ATOM
    if isinstance(node, Negation):
        return f"-{_within(node.operand, _PRODUCT)}", _SIGN - 1
    if isinstance(node, Binary):
        return _binary(node)
    if isinstance(node, Call):
        return _call(node)
    return latex(node), _SUM


def _number(node: Number) -> tuple[str, int]:
    if node.value.denominator == 1:
        return str(node.value.numerator), _ATOM
    digits = format(float(node.value), ".15g")
    mantissa, exponent, power = digits.partition("e")
    return (rf"{mantissa} \cdot 10^{{{int(power)}}}", _PRODUCT) if exponent else (digits, _ATOM)


def _within(node: Statement, precedence: int) -> str:
    text, own = _written(node)
    return text if own >= precedence else rf"\left({text}\right)"


def _binary(node: Binary) -> tuple[str, int]:
    if node.operator == "/":
        return rf"\frac{{{latex(node.left)}}}{{{latex(node.right)}}}", _POWER
    if node.operator == "^":
        return _power(node), _POWER
    if node.operator == "*":
        left, right = _within(node.left, _PRODUCT), _within(node.right, _SIGN)
        fractions = right.startswith(r"\frac") and left[-1:] in "0123456789}"
        between = r" \cdot " if fractions or right[:1].isdigit() else " "
        return f"{left}{between}{right}", _PRODUCT
    right = _within(node.right, _PRODUCT if node.operator == "-" or isinstance(node.right, Negation) else _SUM)
    return f"{_within(node.left, _SUM)} {node.operator} {right}", _SUM


def _power(node: Binary) -> str:
    base, exponent = node.left, latex(node.right)
    if isinstance(base, Call) and base.function in _POWERS and exponent.isdigit():
        return rf"{_COMMANDS[base.function]}^{{{exponent}}}\left({latex(base.arguments[0])}\right)"
    return f"{_within(base, _ATOM)}^{{{exponent}}}"


def _call(node: Call) -> tuple[str, int]:
    written = [latex(each) for each in node.arguments]
    if node.function == "factorial":
        return f"{_within(node.arguments[0], _ATOM)}!", _POWER
    if node.function == "sum":
        body = _within(node.arguments[0], _PRODUCT)
        return rf"\sum_{{{written[1]}={written[2]}}}^{{{written[3]}}} {body}", _SUM
    template = _TEMPLATES.get(node.function)
    if template is not None:
        return template % tuple(written), _ATOM
    if node.function == "root":
        return rf"\sqrt[{written[1]}]{{{written[0]}}}", _ATOM
    if node.function == "log":
        return rf"\log_{{{written[1]}}}\left({written[0]}\right)", _POWER
    command = _COMMANDS.get(node.function, rf"\operatorname{{{node.function}}}")
    return rf"{command}\left({', '.join(written)}\right)", _POWER
