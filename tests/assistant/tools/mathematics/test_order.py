"""Messages to and from the sandboxed process."""

from __future__ import annotations

import msgspec
import pytest

from assistant.tools.mathematics.order import Computed, Failed, Operation, Order, Outcome, Plot

OUTCOMES: list[Outcome] = [
    Computed("x", "x", "x"),
    Computed("x", "x", "x", 1.5, Plot("x", [0.0, 1.0], [None, 2.0], "x", "y")),
    Failed("too_large", "TOO_BIG"),
]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_outcomes_survive_the_pipe(outcome: Outcome) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(outcome), type=Outcome) == outcome


def test_orders_survive_the_pipe() -> None:
    order = Order(Operation.INTEGRATE, "x^2", "pl", lower="0", upper="1", order=2)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(order), type=Order) == order


def test_unknown_operations_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"operation": "exec", "expression": "x"}, Order)
