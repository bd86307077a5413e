"""Defines the messages between the mathematics tool and its sandboxed process: an order to compute, and its outcome."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Operation(StrEnum):
    """What to do with an expression or equation."""

    EVALUATE = "evaluate"
    SIMPLIFY = "simplify"
    EXPAND = "expand"
    FACTOR = "factor"
    SOLVE = "solve"
    DIFFERENTIATE = "differentiate"
    INTEGRATE = "integrate"
    PLOT = "plot"


class Order(msgspec.Struct, frozen=True):
    """A computation. Its expressions are text in the notation of `language`."""

    operation: Operation
    expression: str
    language: str = "en"
    variable: str = ""
    lower: str = ""
    upper: str = ""
    order: int = 1
    """Order of a derivative."""


class Plot(msgspec.Struct, frozen=True):
    """Points of a graph; a value is `None` where the function has a pole or no real value."""

    variable: str
    x: list[float]
    y: list[float | None]
    x_label: str
    y_label: str


class Computed(msgspec.Struct, frozen=True, tag="computed"):
    """Result of a computation."""

    input_latex: str
    result_latex: str
    result_text: str
    numeric: float | None = None
    plot: Plot | None = None


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """A computation without a result: the code of a `ToolError` and the name of a sentence of `sentences`."""

    code: str
    sentence: str


Outcome = Computed | Failed
