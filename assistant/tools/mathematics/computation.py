"""Computes orders of the mathematics tool with SymPy, in the sandboxed process, which imports this module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from typing import BinaryIO

import msgspec
import sympy

from assistant.tools.mathematics import latex as typed_latex
from assistant.tools.mathematics import real_function, sentences, solving, symbolic
from assistant.tools.mathematics.order import Computed, Failed, Operation, Order, Outcome, Plot
from assistant.tools.mathematics.refusals import refusals_as_tool_errors
from assistant.tools.sentences import Sentence
from assistant.tools.tool import InvalidArguments, NotFound, ToolError
from runtime.mathematics import bounds
from runtime.mathematics.errors import ExpressionRefused
from runtime.mathematics.expression import Name, Node, Number, Relation, Statement, free_variables, nodes
from runtime.mathematics.parser import parse, parse_expression
from runtime.mathematics.sympy_expressions import RECURSION_LIMIT, Expr, convert, import_deferred, symbol, symbols

MAX_ORDER = 10
"""Highest order of a derivative."""
MAX_LABEL = 60
"""Characters of a function that labels its plot."""
RANGE = 10.0
"""Plots without limits go from the negative of this to this."""
_PREFERRED = ("x", "y", "z", "t")
_DECIMAL_DIGITS = 30

import_deferred()


def encoded_outcome(order: bytes, _source: BinaryIO) -> Iterator[bytes]:
    """Compute one `Order`, encoded as MessagePack, in the sandboxed process, and yield its encoded `Outcome`."""
    sys.setrecursionlimit(RECURSION_LIMIT)
    yield msgspec.msgpack.encode(outcome(msgspec.msgpack.decode(order, type=Order)))


def outcome(order: Order) -> Outcome:
    """Compute one order with SymPy; a failure is returned as an outcome, unless it is the process's own."""
    try:
        with refusals_as_tool_errors():
            return _OPERATIONS[order.operation](order, statements_of(order))
    except ToolError as error:
        return Failed(error.code, sentence_name(error.sentence))
    except (MemoryError, OSError, ImportError):
        raise  # of the process, not of the expression
    except Exception:  # noqa: BLE001 - SymPy raises many kinds where it has no method for an expression
        return Failed(NotFound.code, sentence_name(sentences.NO_CLOSED_FORM))


def sentence_name(sentence: Sentence) -> str:
    """Return the name of a sentence for people in module `sentences`, by which another process finds that sentence.

    "NO_CLOSED_FORM" if the module has no such sentence.
    """
    return next((name for name, each in vars(sentences).items() if each is sentence), "NO_CLOSED_FORM")


def statements_of(order: Order) -> tuple[Statement, ...]:
    """Parse the expression of an order, check its bounds, and return its statements.

    Raises:
        ExpressionRefused: they are not readable, or too much to compute.
        InvalidArguments: the variable is none.
    """
    found = parse(order.expression, order.language)
    for each in found:
        bounds.check(each)
    for limit in (order.lower, order.upper):
        if limit:
            bounds.check(parse_expression(limit, order.language))
    if order.variable:
        variable_of(order, found[0])
    return found


def variable_of(order: Order, *statements: Statement) -> str:
    """Return the name of the variable that an order names, or else the likeliest free variable of its `statements`.

    Raises:
        InvalidArguments: the order names something that is no variable.
    """
    if order.variable:
        named = parse_expression(order.variable, order.language)
        if not isinstance(named, Name) or not free_variables(named):
            raise InvalidArguments(sentences.UNKNOWN_NAME, name=order.variable)
        return named.name
    free = frozenset().union(*(free_variables(each) for each in statements))
    return next((each for each in _PREFERRED if each in free), min(free, default="x"))


def _expression(statements: tuple[Statement, ...]) -> Node:
    """Return the only expression; of `y = ...` and `f(x) = ...` the right side."""
    statement = statements[0]
    if len(statements) > 1:
        raise InvalidArguments(sentences.NO_EQUATION)
    if not isinstance(statement, Relation):
        return statement
    defined = typed_latex.latex(statement.left) in ("y", "f", "f x", "f t", "g x", r"y x")
    if statement.operator != "=" or not defined:
        raise InvalidArguments(sentences.NO_EQUATION)
    return statement.right


def _evaluate(order: Order, statements: tuple[Statement, ...]) -> Outcome:
    if len(statements) > 1 or isinstance(statements[0], Relation):
        return _compare(order, statements) if not free_variables(statements[0]) else _solve(order, statements)
    node = _expression(statements)
    found = convert(node, symbols(node))
    return _computed(typed_latex.latex(node), sympy.simplify(found), decimal=_has_decimals(node))


def _compare(order: Order, statements: tuple[Statement, ...]) -> Outcome:
    statement = statements[0]
    if len(statements) > 1 or not isinstance(statement, Relation):
        raise InvalidArguments(sentences.NO_VARIABLE)
    difference = sympy.simplify(convert(statement.left, {}) - convert(statement.right, {}))
    compared = {"=": sympy.Eq, "<": sympy.Lt, "<=": sympy.Le, ">": sympy.Gt, ">=": sympy.Ge}
    polish = order.language.lower().startswith("pl")
    holds = bool(compared[statement.operator](difference, 0))
    word = ("prawda" if polish else "true") if holds else ("fałsz" if polish else "false")
    return Computed(typed_latex.latex(statement), rf"\text{{{word}}}", word)


def _has_decimals(node: Node) -> bool:
    return any(isinstance(each, Number) and each.decimal for each in nodes(node))


def _computed(input_latex: str, found: Expr, *, decimal: bool = False, plot: Plot | None = None) -> Computed:
    text = symbolic.text(found)
    latex = symbolic.latex(found)
    if decimal and (digits := _decimal(found)) is not None:
        text = latex = digits
    return Computed(input_latex, latex, text, symbolic.numeric(found), plot)


def _decimal(found: Expr) -> str | None:
    """Return a rational number as a decimal one, if that ends within a few digits."""
    if not found.is_Rational or found.is_Integer:
        return None
    rest = int(found.q)
    for factor in (2, 5):
        while rest % factor == 0:
            rest //= factor
    if rest != 1 or len(str(found.q)) > _DECIMAL_DIGITS or len(str(found.p)) > _DECIMAL_DIGITS:
        return None
    return format(Context(prec=_DECIMAL_DIGITS * 4).divide(Decimal(int(found.p)), Decimal(int(found.q))), "f")


def _rewriting(function: Callable[[Expr], Expr]) -> Callable[[Order, tuple[Statement, ...]], Outcome]:
    def rewrite(_order: Order, statements: tuple[Statement, ...]) -> Outcome:
        node = _expression(statements)
        return _computed(typed_latex.latex(node), function(convert(node, symbols(node))))

    return rewrite


def _factor(order: Order, statements: tuple[Statement, ...]) -> Outcome:
    node = _expression(statements)
    found = convert(node, symbols(node))
    if not found.is_Integer:
        return _rewriting(sympy.factor)(order, statements)
    factors = sympy.factorint(found).items()
    powers = [prime if exponent == 1 else sympy.Pow(prime, exponent, evaluate=False) for prime, exponent in factors]
    return _computed(typed_latex.latex(node), sympy.Mul(*powers, evaluate=False))


def _solve(order: Order, statements: tuple[Statement, ...]) -> Outcome:
    free = frozenset().union(*(free_variables(each) for each in statements))
    if not free:
        return _compare(order, statements) if isinstance(statements[0], Relation) else _no_variable()
    unknowns = [variable_of(order, *statements)] if len(statements) == 1 else sorted(free)
    latex, text, numeric = solving.solve(statements, unknowns)
    return Computed(_joined(statements), latex, text, numeric)


def _no_variable() -> Outcome:
    raise InvalidArguments(sentences.NO_VARIABLE)


def _joined(statements: tuple[Statement, ...]) -> str:
    return r",\; ".join(typed_latex.latex(each) for each in statements)


def _differentiate(order: Order, statements: tuple[Statement, ...]) -> Outcome:
    node, variable = _expression(statements), variable_of(order, _expression(statements))
    if not 1 <= order.order <= MAX_ORDER:
        raise InvalidArguments(sentences.NO_CLOSED_FORM)
    names = symbols(node)
    unknown = names.setdefault(variable, symbol(variable))
    derivative = sympy.diff(convert(node, names), unknown, order.order).doit()
    found = min((derivative, sympy.simplify(derivative)), key=sympy.count_ops)
    if found.has(sympy.Derivative):
        raise NotFound(sentences.NO_CLOSED_FORM)
    typed = typed_latex.variable(variable)
    power = f"^{{{order.order}}}" if order.order > 1 else ""
    input_latex = rf"\frac{{d{power}}}{{d{typed}{power}}} \left({typed_latex.latex(node)}\right)"
    return _computed(input_latex, found, plot=_plot_of_result(found, variable))


def _integrate(order: Order, statements: tuple[Statement, ...]) -> Outcome:
    node, variable = _expression(statements), variable_of(order, _expression(statements))
    names = symbols(node)
    unknown = names.setdefault(variable, symbol(variable))
    integrand = convert(node, names)
    if order.lower and order.upper:
        return _definite(order, node, integrand, unknown)
    found = _absolute_logarithms(integrand, sympy.integrate(integrand, unknown), unknown)
    if found.has(sympy.Integral):
        raise NotFound(sentences.NO_CLOSED_FORM)
    input_latex = rf"\int {typed_latex.factor(node)} \, d{typed_latex.variable(variable)}"
    latex, text = f"{symbolic.latex(found)} + C", f"{symbolic.text(found)} + C"
    return Computed(input_latex, latex, text, None, _plot_of_result(found, variable))


def _definite(order: Order, node: Node, integrand: Expr, unknown: Expr) -> Outcome:
    lower, upper = (parse_expression(each, order.language) for each in (order.lower, order.upper))
    names = symbols(lower, upper)
    limits = convert(lower, names), convert(upper, names)
    found = sympy.integrate(integrand, (unknown, *limits), conds="none")
    input_latex = (
        rf"\int_{{{typed_latex.latex(lower)}}}^{{{typed_latex.latex(upper)}}} {typed_latex.factor(node)}"
        rf" \, d{typed_latex.variable(str(unknown))}"
    )
    if found.has(sympy.Integral):
        value = symbolic.numeric(found)
        if value is None:
            raise NotFound(sentences.NO_CLOSED_FORM)
        return Computed(input_latex, rf"\approx {value:.12g}", f"≈ {value:.12g}", value)
    return _computed(input_latex, sympy.simplify(found), plot=_plot_between(node, str(unknown), lower, upper))


def _absolute_logarithms(integrand: Expr, found: Expr, unknown: Expr) -> Expr:
    """Return an antiderivative with `ln|f|` for `ln f`, which is defined on both sides of a zero of `f`."""
    if integrand.has(sympy.log):
        return found
    terms = []
    for term in sympy.Add.make_args(found):
        coefficient, rest = term.as_independent(unknown)
        if isinstance(rest, sympy.log) and not rest.args[0].is_positive and rest.args[0].is_real is not False:
            terms.append(coefficient * sympy.log(sympy.Abs(rest.args[0])))
        else:
            terms.append(term)
    return sympy.Add(*terms)


def _plot(order: Order, statements: tuple[Statement, ...]) -> Outcome:
    node = _expression(statements)
    if len(free_variables(node)) > 1:
        raise InvalidArguments(sentences.ONE_VARIABLE)
    variable = variable_of(order, node)
    if order.lower or order.upper:
        lower, upper = (parse_expression(each, order.language) for each in (order.lower or "-10", order.upper or "10"))
        plot = _plot_between(node, variable, lower, upper)
        if plot is None:
            raise InvalidArguments(sentences.WRONG_RANGE)
    else:
        plot = _plotted(node, variable, -RANGE, RANGE)
    if not any(y is not None for y in plot.y):
        raise NotFound(sentences.UNDEFINED)
    latex = typed_latex.latex(node)
    text = symbolic.text(convert(node, symbols(node)))
    return Computed(f"y = {latex}", f"y = {latex}", f"y = {text}", None, _labelled(plot, text))


def _plot_of_result(found: Expr, variable: str) -> Plot | None:
    """Return the plot of a result of one variable; `None`: it has others, or functions without a real evaluation."""
    try:
        text = symbolic.text(found)
        node = parse_expression(text, "en")
    except (ExpressionRefused, ToolError):
        return None
    if not free_variables(node) <= {variable}:
        return None
    plot = _plotted(node, variable, -RANGE, RANGE)
    return _labelled(plot, text) if any(y is not None for y in plot.y) else None


def _labelled(plot: Plot, text: str) -> Plot:
    """Return the plot with the function as its label, unless that is too long for a legend."""
    return plot if len(text) > MAX_LABEL else msgspec.structs.replace(plot, y_label=text)


def _plot_between(node: Node, variable: str, lower: Node, upper: Node) -> Plot | None:
    lowest, highest = real_function.value(lower, {}), real_function.value(upper, {})
    if lowest is None or highest is None or not lowest < highest or not free_variables(node) <= {variable}:
        return None
    return _plotted(node, variable, lowest, highest)


def _plotted(node: Node, variable: str, lowest: float, highest: float) -> Plot:
    points = real_function.points(node, variable, lowest, highest)
    x = [float(format(each, ".8g")) for each, _ in points]
    y = [None if each is None else float(format(each, ".8g")) for _, each in points]
    return Plot(variable, x, y, variable, "y" if variable != "y" else "f(y)")


_OPERATIONS: dict[Operation, Callable[[Order, tuple[Statement, ...]], Outcome]] = {
    Operation.EVALUATE: _evaluate,
    Operation.SIMPLIFY: _rewriting(sympy.simplify),
    Operation.EXPAND: _rewriting(sympy.expand),
    Operation.FACTOR: _factor,
    Operation.SOLVE: _solve,
    Operation.DIFFERENTIATE: _differentiate,
    Operation.INTEGRATE: _integrate,
    Operation.PLOT: _plot,
}
