"""Defines the syntax tree of mathematical expressions, which the parser builds and which is checked and computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Number:
    """A number, exact; `decimal`: it was written with a decimal separator or an exponent."""

    value: Fraction
    decimal: bool = False


@dataclass(frozen=True)
class Name:
    """A variable, or one of the constants `pi`, `e`, `i` and `oo`."""

    name: str


@dataclass(frozen=True)
class Negation:
    """The negative of an operand."""

    operand: Node


@dataclass(frozen=True)
class Binary:
    """`left operator right`; operators are `+`, `-`, `*`, `/` and `^`."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Call:
    """A function of `functions.FUNCTIONS`, by its canonical name, with arguments."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Relation:
    """`left operator right`; operators are `=`, `<`, `<=`, `>` and `>=`."""

    operator: str
    left: Node
    right: Node


Node = Number | Name | Negation | Binary | Call
Statement = Node | Relation

CONSTANTS = frozenset({"pi", "e", "i", "oo"})


def children(node: Statement) -> tuple[Node, ...]:
    """Return the operands or arguments of a node of an expression; empty for a number or a name."""
    if isinstance(node, Binary | Relation):
        return node.left, node.right
    if isinstance(node, Negation):
        return (node.operand,)
    return node.arguments if isinstance(node, Call) else ()


def nodes(node: Statement) -> Iterator[Statement]:
    """Yield a node of an expression and all nodes below it."""
    yield node
    for child in children(node):
        yield from nodes(child)


def free_variables(node: Statement) -> frozenset[str]:
    """Return the names of the variables in an expression or equation that no sum binds."""
    if isinstance(node, Name):
        return frozenset() if node.name in CONSTANTS else frozenset({node.name})
    if isinstance(node, Call) and node.function == "sum":
        body, index, first, last = node.arguments
        assert isinstance(index, Name)  # noqa: S101 - the parser has checked it
        return (free_variables(body) - {index.name}) | free_variables(first) | free_variables(last)
    return frozenset().union(*(free_variables(child) for child in children(node)))
