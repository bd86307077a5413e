"""Syntax trees."""

from __future__ import annotations

from fractions import Fraction

from runtime.mathematics.expression import (
    Binary,
    Call,
    Name,
    Negation,
    Number,
    Relation,
    children,
    free_variables,
    nodes,
)

X, ONE = Name("x"), Number(Fraction(1))
TREE = Relation("=", Binary("+", X, Negation(ONE)), Call("max", (X, Name("pi"))))


def test_children_are_operands_and_arguments() -> None:
    assert children(TREE) == (TREE.left, TREE.right)
    assert children(TREE.right) == (X, Name("pi"))
    assert children(Negation(ONE)) == (ONE,)
    assert children(ONE) == children(X) == ()


def test_all_nodes_are_visited() -> None:
    assert list(nodes(TREE)) == [TREE, TREE.left, X, Negation(ONE), ONE, TREE.right, X, Name("pi")]


def test_constants_and_bound_variables_are_not_free() -> None:
    assert free_variables(TREE) == {"x"}
    k = Name("k")
    assert free_variables(Call("sum", (Binary("*", k, X), k, ONE, Name("n")))) == {"x", "n"}
