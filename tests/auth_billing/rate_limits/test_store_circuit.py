"""The circuit breaker of the store of rate limits: open for a second after a time-out."""

from __future__ import annotations

import pytest

from auth_billing.errors import StoreUnavailable
from auth_billing.rate_limits.store_circuit import OPEN_PERIOD, StoreCircuit
from tests.fakes.accounts import FakeClock


def test_calls_fail_fast_after_a_time_out_and_are_tried_again_later() -> None:
    clock = FakeClock(100.0)
    circuit, calls = StoreCircuit(clock), []
    with pytest.raises(StoreUnavailable), circuit.guard():
        raise StoreUnavailable("timed out")
    with pytest.raises(StoreUnavailable), circuit.guard():
        calls.append("too early")
    clock.now += OPEN_PERIOD
    with circuit.guard():
        calls.append("later")
    assert calls == ["later"]


def test_other_errors_do_not_open_the_circuit() -> None:
    circuit = StoreCircuit(FakeClock(100.0))
    with pytest.raises(ValueError, match="other"), circuit.guard():
        raise ValueError("other")
    with circuit.guard():
        pass
