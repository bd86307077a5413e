"""Lists the functions and variables that a mathematical expression may name."""

from __future__ import annotations

FUNCTIONS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("sin", "cos", "tan", "cot", "sec", "csc"), (1, 1)),
    **dict.fromkeys(("asin", "acos", "atan", "acot"), (1, 1)),
    **dict.fromkeys(("sinh", "cosh", "tanh", "coth", "asinh", "acosh", "atanh"), (1, 1)),
    **dict.fromkeys(("exp", "ln", "log10", "log2", "sqrt", "cbrt", "abs", "sign", "floor", "ceil"), (1, 1)),
    **dict.fromkeys(("factorial", "gamma", "erf"), (1, 1)),
    **dict.fromkeys(("root", "binomial", "mod"), (2, 2)),
    **dict.fromkeys(("gcd", "lcm", "min", "max"), (2, 8)),
    "log": (1, 2),
    "sum": (4, 4),
}
"""Fewest and most arguments of each function, by its canonical name."""

ALIASES = {
    "tg": "tan",
    "ctg": "cot",
    "cotg": "cot",
    "cosec": "csc",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctg": "atan",
    "arccot": "acot",
    "arcctg": "acot",
    "sh": "sinh",
    "ch": "cosh",
    "th": "tanh",
    "arsinh": "asinh",
    "arcosh": "acosh",
    "artanh": "atanh",
    "lg": "log10",
    "sgn": "sign",
    "ceiling": "ceil",
    "binom": "binomial",
    "nwd": "gcd",
    "nww": "lcm",
    "suma": "sum",
    "silnia": "factorial",
    "pierwiastek": "sqrt",
}
"""Other names of functions, among them the Polish ones."""

CONSTANT_ALIASES = {"inf": "oo", "infinity": "oo"}
INVERSES = {name: f"a{name}" for name in ("sin", "cos", "tan", "cot", "sinh", "cosh", "tanh")}
"""Functions whose `^-1` means another one, and that one."""

_GREEK = (
    "alpha beta delta epsilon zeta eta theta kappa lambda mu nu xi rho sigma tau phi chi psi omega"  # no gamma, no pi
)
GREEK = frozenset(_GREEK.split())
"""Variables with names of several letters."""


def canonical(name: str) -> str | None:
    """Return the canonical name of a function that an expression names, ignoring case; `None` if it is unknown."""
    lower = name.lower()
    lower = ALIASES.get(lower, lower)
    return lower if lower in FUNCTIONS else None
