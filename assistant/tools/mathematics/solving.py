"""Solves equations, systems and inequalities with SymPy; imported only by the mathematics tool's sandboxed process."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import sympy

from assistant.tools.mathematics import latex as typed_latex
from assistant.tools.mathematics import real_function, sentences, symbolic
from assistant.tools.tool import InvalidArguments, NotFound
from runtime.mathematics.expression import Binary, Node, Number, Relation, Statement, free_variables
from runtime.mathematics.sympy_expressions import Expr, convert, symbol, symbols

Written = tuple[str, str, float | None]
"""LaTeX, text, and the numeric value of a single solution."""

MAX_SOLUTIONS = 24
MAX_EXACT_CHARACTERS = 120
"""A longer exact solution is shown as a number."""
_ROUNDING = 1e-12
"""Relative imaginary part below which a computed value is real."""
_SEARCHED = 50.0
"""Numeric solutions are searched between the negative of this and this."""
_SEARCH_POINTS = 4_001
_OF_REAL_VARIABLES = (sympy.Abs, sympy.sign, sympy.Min, sympy.Max, sympy.floor, sympy.ceiling)
"""Functions that SymPy solves for real variables only."""
_RELATIONS = {"<": sympy.Lt, "<=": sympy.Le, ">": sympy.Gt, ">=": sympy.Ge}


def solve(statements: Sequence[Statement], variables: Sequence[str]) -> Written:
    """Solve one equation or inequality for the first of `variables`, or a system for all of them; return the solutions.

    Raises:
        ToolError: they have no solution that can be found or written.
    """
    if len(statements) > 1:
        return _system([_difference(each) for each in statements], variables)
    statement = statements[0]
    if isinstance(statement, Relation) and statement.operator != "=":
        return _inequality(statement, variables[0])
    return _equation(_difference(statement), variables[0])


def _difference(statement: Statement) -> Node:
    if not isinstance(statement, Relation):
        return statement
    if statement.operator != "=":
        raise InvalidArguments(sentences.NO_EQUATION)
    if isinstance(statement.right, Number) and not statement.right.value:
        return statement.left
    return Binary("-", statement.left, statement.right)


def _equation(node: Node, variable: str) -> Written:
    names = symbols(node, real=False)
    unknown = names.setdefault(variable, symbol(variable, real=False))
    expression = convert(node, names)
    if not expression.has(unknown):
        return _constant_equation(expression, variable)
    if expression.has(sympy.functions.elementary.trigonometric.TrigonometricFunction):
        periodic = _periodic(node, variable)
        if periodic is not None:
            return periodic
    found = _exact(node, expression, variable, unknown)
    if found is None:
        return _approximations(_numeric_solutions(node, variable), variable)
    return _solutions(found, variable)


def _constant_equation(expression: Expr, variable: str) -> Written:
    if sympy.simplify(expression) == 0:
        return rf"{typed_latex.variable(variable)} \in \mathbb{{R}}", f"{variable} ∈ ℝ", None
    return r"\varnothing", "∅", None


def _exact(node: Node, expression: Expr, variable: str, unknown: Expr) -> list[Expr] | None:
    """Return solutions by formula, numeric roots of a polynomial without one; `None`: SymPy has no method."""
    if expression.is_polynomial(unknown):
        expression = _with_single_roots(expression, unknown)
    try:
        found = list(sympy.solve(expression, unknown))
    except NotImplementedError:
        if not expression.has(*_OF_REAL_VARIABLES):
            return None
        names = symbols(node)
        try:
            return list(sympy.solve(convert(node, names), names[variable]))
        except NotImplementedError:
            return None
    if any(each.has(sympy.RootOf) for each in found) and expression.is_polynomial(unknown):
        return list(sympy.Poly(expression, unknown).nroots(n=15, maxsteps=200))
    return found


def _with_single_roots(expression: Expr, unknown: Expr) -> Expr:
    """Return a polynomial with the same roots, each of them single, if its degree is high.

    Raises:
        NotFound: it has more than `MAX_SOLUTIONS` roots, which take seconds to compute.
    """
    polynomial = sympy.Poly(expression, unknown)
    if polynomial.degree() <= MAX_SOLUTIONS:
        return expression
    single = (
        polynomial.sqf_part() if polynomial.domain.is_Exact and not polynomial.free_symbols - {unknown} else polynomial
    )
    if single.degree() > MAX_SOLUTIONS:
        raise NotFound(sentences.NO_CLOSED_FORM)
    return single.as_expr()


def _periodic(node: Node, variable: str) -> Written | None:
    """Return all real solutions of a trigonometric equation; `None`: SymPy finds no formula."""
    names = symbols(node)
    found = sympy.solveset(convert(node, names), names[variable], sympy.S.Reals)
    parts = found.args if isinstance(found, sympy.Union) else (found,)
    if not parts or not all(isinstance(each, sympy.ImageSet) for each in parts):
        return None
    n = sympy.Symbol("n", integer=True)
    if variable == "n" or any(each.base_sets != (sympy.S.Integers,) for each in parts):
        return None
    written = sorted((each.lamda(n) for each in parts), key=lambda each: _position(each.subs(n, 0)))
    head = typed_latex.variable(variable)
    latex = r",\; ".join(f"{head} = {symbolic.latex(each)}" for each in written)
    text = ", ".join(f"{variable} = {symbolic.text(each)}" for each in written)
    return rf"{latex},\; n \in \mathbb{{Z}}", f"{text}, n ∈ ℤ", None


def _solutions(found: list[Expr], variable: str) -> Written:
    if not found:
        return r"\varnothing", "∅", None
    if len(found) > MAX_SOLUTIONS:
        raise NotFound(sentences.NO_CLOSED_FORM)
    ordered = sorted(found, key=_position)
    written = [_solution(each) for each in ordered]
    latex = r",\; ".join(_typeset(variable, sign, one) for sign, one, _ in written)
    text = ", ".join(f"{variable} {sign} {one}" for sign, _, one in written)
    return latex, text, symbolic.numeric(ordered[0]) if len(ordered) == 1 else None


def _position(solution: Expr) -> tuple[float, float]:
    if solution.free_symbols:
        return 0.0, 0.0
    value = complex(solution.evalf(15))
    return (float(format(value.real, ".9g")), value.imag)


def _solution(found: Expr) -> tuple[str, str, str]:
    """Return the sign, LaTeX and text of a solution: exact, or approximate where the exact one is hard to read."""
    if found.free_symbols:
        return "=", symbolic.latex(found), symbolic.text(found)
    value = complex(found.evalf(15))
    real = abs(value.imag) < _ROUNDING * max(1.0, abs(value.real))
    text = symbolic.text(found)
    if (
        not found.has(sympy.Float, sympy.RootOf)
        and len(text) <= MAX_EXACT_CHARACTERS
        and not (real and found.has(sympy.I))
    ):
        return "=", symbolic.latex(found), text
    if real:
        return "≈", f"{value.real:.12g}", f"{value.real:.12g}"
    written = f"{value.real:.12g} {'-' if value.imag < 0 else '+'} {abs(value.imag):.12g}"
    return "≈", f"{written} i", f"{written}*i"


def _numeric_solutions(node: Node, variable: str) -> list[float]:
    if free_variables(node) != {variable}:
        raise NotFound(sentences.NO_CLOSED_FORM)

    def at(x: float) -> float | None:
        return real_function.value(node, {variable: x})

    step = 2 * _SEARCHED / (_SEARCH_POINTS - 1)
    sampled = [(x, at(x)) for x in (-_SEARCHED + number * step for number in range(_SEARCH_POINTS))]
    found: list[float] = []
    for (low, y_low), (high, y_high) in pairwise(sampled):
        if y_low is None or y_high is None:
            continue
        if y_low == 0:
            found.append(low)
        elif y_low * y_high < 0 and (root := real_function.crossing(at, low, high, y_low)) is not None:
            found.append(root)
    if not found or len(found) > MAX_SOLUTIONS:
        raise NotFound(sentences.NO_CLOSED_FORM)
    return found


def _approximations(found: list[float], variable: str) -> Written:
    numbers = [format(each, ".12g") for each in found]
    latex = r",\; ".join(rf"{typed_latex.variable(variable)} \approx {each}" for each in numbers)
    text = ", ".join(f"{variable} ≈ {each}" for each in numbers)
    return latex, text, float(numbers[0]) if len(numbers) == 1 else None


def _system(nodes: list[Node], variables: Sequence[str]) -> Written:
    names = symbols(*nodes, real=False)
    unknowns = [names[each] for each in variables if each in names]
    try:
        found = sympy.solve([convert(each, names) for each in nodes], unknowns, dict=True)
    except NotImplementedError as error:
        raise NotFound(sentences.NO_CLOSED_FORM) from error
    if not found:
        return r"\varnothing", "∅", None
    if len(found) > MAX_SOLUTIONS:
        raise NotFound(sentences.NO_CLOSED_FORM)
    latex, text = [], []
    for solution in found:
        parts = [(str(unknown), *_solution(solution[unknown])) for unknown in unknowns if unknown in solution]
        latex.append(r",\; ".join(_typeset(name, sign, one) for name, sign, one, _ in parts))
        text.append(", ".join(f"{name} {sign} {one}" for name, sign, _, one in parts))
    return r" \quad\text{/}\quad ".join(latex), " / ".join(text), None


def _typeset(name: str, sign: str, value: str) -> str:
    relation = "=" if sign == "=" else r"\approx"
    return f"{typed_latex.variable(name)} {relation} {value}"


def _inequality(statement: Relation, variable: str) -> Written:
    names = symbols(statement.left, statement.right)
    unknown = names.setdefault(variable, symbol(variable))
    if set(names) != {variable}:
        raise NotFound(sentences.NO_CLOSED_FORM)
    left, right = convert(statement.left, names), convert(statement.right, names)
    relation = _RELATIONS[statement.operator](left, right)
    if relation in (sympy.true, sympy.false):
        found: Expr = sympy.S.Reals if relation == sympy.true else sympy.S.EmptySet
    else:
        try:
            found = sympy.solve_univariate_inequality(relation, unknown, relational=False)
        except NotImplementedError as error:
            raise NotFound(sentences.NO_CLOSED_FORM) from error
    if found == sympy.S.EmptySet:
        return r"\varnothing", "∅", None
    return (
        rf"{typed_latex.variable(variable)} \in {symbolic.latex(found)}",
        f"{variable} ∈ {symbolic.text(found)}",
        None,
    )
