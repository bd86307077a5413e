"""Which requesters are active: those of the last minute, by the time of their latest request."""

from __future__ import annotations

from gateway.admission.active_requesters import ACTIVITY_WINDOW, ActiveRequesters, are_several
from tests.fakes.accounts import FakeClock


def test_a_requester_is_active_for_a_minute_after_its_last_request() -> None:
    clock = FakeClock()
    active = ActiveRequesters(clock)
    active.note_request("a", "first")
    active.note_request("a", "second")
    active.note_request("b", "")
    clock.now += ACTIVITY_WINDOW - 1
    active.note_request("a", "first")
    assert active.by_tenant == {"a": {"first", "second"}, "b": {""}}
    assert list(active.latest_first()) == [("a", "first"), ("b", ""), ("a", "second")]
    clock.now += 2
    assert active.by_tenant == {"a": {"first"}}
    assert list(active.latest_first()) == [("a", "first")]
    clock.now += ACTIVITY_WINDOW
    assert not active.by_tenant


def test_equal_clients_of_two_gateways_are_one() -> None:
    assert not are_several([], [])
    assert not are_several(["a"], [])
    assert not are_several([], ["a"])
    assert not are_several(["a"], ["a"])
    assert are_several(["a"], ["b"])
    assert are_several(["a", "b"], [])
    assert are_several([], ["a", "b"])
