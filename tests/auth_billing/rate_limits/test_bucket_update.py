"""Updates of buckets and slots (`bucket_update.py`, with the records of `ports.py`): all or nothing."""

from __future__ import annotations

from auth_billing.rate_limits.bucket_update import SlotHolding, SubjectState, apply_update
from auth_billing.rate_limits.limits import BucketRate, Dimension
from auth_billing.rate_limits.ports import BucketUpdate, SlotUpdate, UnitUpdate

NOW = 1_000.0
RPM, TPM = Dimension.REQUESTS_PER_MINUTE, Dimension.TOKENS_PER_MINUTE
RATE = BucketRate(60, 60.0)


def take(minimum: int, wanted: int, returned: int = 0) -> BucketUpdate:
    return BucketUpdate("a", {RPM: UnitUpdate(RATE, returned, minimum, wanted)})


def test_between_minimum_and_wanted_as_many_units_are_taken_as_there_are() -> None:
    state, result = apply_update(SubjectState(), take(10, 100), NOW)
    assert (result.applied, result.taken) == (True, {RPM: 60})
    assert state is not None
    assert state.full_at[RPM] == NOW + 60


def test_an_update_that_lacks_units_in_one_dimension_takes_none() -> None:
    update = BucketUpdate("a", {RPM: UnitUpdate(RATE, 0, 1, 1), TPM: UnitUpdate(RATE, 0, 61, 61)})
    state, result = apply_update(SubjectState({RPM: NOW + 5}), update, NOW)
    assert (state, result.applied, result.taken) == (None, False, {})
    assert result.full_at == {RPM: NOW + 5, TPM: 0.0}  # as it was


def test_returned_units_can_be_taken_by_the_same_update() -> None:
    empty = SubjectState({RPM: NOW + 60})
    assert apply_update(empty, take(5, 5), NOW)[0] is None
    _, result = apply_update(empty, take(5, 5, returned=5), NOW)
    assert (result.applied, result.taken) == (True, {RPM: 5})


def slots(holder: str, *, limit: int = 10, running: int = 0, minimum: int = 1, wanted: int = 1) -> BucketUpdate:
    return BucketUpdate(holder, {}, SlotUpdate(limit, running, minimum, wanted, ttl=30.0))


def test_slots_of_other_holders_count_until_they_expire() -> None:
    state = SubjectState({}, {"b": SlotHolding(8, NOW + 1), "dead": SlotHolding(9, NOW)})
    after, result = apply_update(state, slots("a", minimum=1, wanted=5), NOW)
    assert (result.applied, result.slots, result.other_slots) == (True, 2, 8)
    assert after is not None
    assert after.holders == {"b": SlotHolding(8, NOW + 1), "a": SlotHolding(2, NOW + 30)}
    assert apply_update(state, slots("a", minimum=3, wanted=3), NOW)[0] is None


def test_running_requests_keep_their_slots_under_a_lowered_limit() -> None:
    state = SubjectState({}, {"a": SlotHolding(6, NOW + 1)})
    _, result = apply_update(state, slots("a", limit=2, running=6, minimum=6, wanted=9), NOW)
    assert (result.applied, result.slots) == (True, 6)
    assert apply_update(state, slots("a", limit=2, running=6, minimum=7, wanted=9), NOW)[0] is None
