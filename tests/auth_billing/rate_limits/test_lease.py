"""The lease of one subject: charges from memory, exact corrections, and release of what is unused.

Many leases together are in `test_limiter.py`.
"""

from __future__ import annotations

import pytest

from auth_billing.errors import RateLimitExceeded, StoreUnavailable, TokenLimitExceeded
from auth_billing.rate_limits.lease import Lease
from auth_billing.rate_limits.limits import Dimension, Limits, key_subject
from auth_billing.rate_limits.store_circuit import StoreCircuit
from tests.fakes.accounts import FakeClock
from tests.fakes.rate_buckets import DictBucketStore

RPM, TPM = Dimension.REQUESTS_PER_MINUTE, Dimension.TOKENS_PER_MINUTE


class Stage:
    def __init__(self, limits: Limits) -> None:
        self.clock = FakeClock(1_000.0)
        self.store = DictBucketStore(self.clock)
        self.lease = Lease(key_subject("k0", ""), limits, self.store, "gateway-1", StoreCircuit(self.clock))

    def remaining(self, dimension: Dimension) -> int:
        return self.lease.statuses()[dimension].remaining


async def test_dimensions_without_a_limit_cost_nothing() -> None:
    stage = Stage(Limits(requests_per_minute=10))
    charge = await stage.lease.reserve({RPM: 1, TPM: 10**9}, slot=True)
    assert charge.units == {RPM: 1}
    assert stage.remaining(RPM) == 9


async def test_under_load_a_later_request_is_reserved_from_memory() -> None:
    stage = Stage(Limits(requests_per_minute=600))
    assert stage.lease.reserve_at_once({RPM: 1}, slot=False) is None
    for _ in range(2):  # the second one takes units for the load to come
        await stage.lease.reserve({RPM: 1}, slot=False)
    writes = stage.store.writes
    assert stage.lease.reserve_at_once({RPM: 1}, slot=False) is not None
    assert stage.store.writes == writes


async def test_a_refusal_takes_nothing_and_says_when_to_retry() -> None:
    stage = Stage(Limits(requests_per_minute=10, tokens_per_minute=100))
    await stage.lease.reserve({RPM: 1, TPM: 100}, slot=False)
    with pytest.raises(TokenLimitExceeded) as caught:
        await stage.lease.reserve({RPM: 1, TPM: 50}, slot=False)
    assert caught.value.wait == pytest.approx(30.0)
    assert stage.remaining(RPM) == 9


async def test_a_charge_is_corrected_to_what_was_used() -> None:
    stage = Stage(Limits(tokens_per_minute=100))
    charge = await stage.lease.reserve({TPM: 60}, slot=False)
    stage.lease.correct(charge, TPM, 25)
    assert stage.remaining(TPM) == 75
    stage.lease.correct(charge, TPM, 40)
    assert stage.remaining(TPM) == 60


async def test_an_undone_charge_is_available_again() -> None:
    stage = Stage(Limits(requests_per_minute=10, concurrent_requests=1))
    charge = await stage.lease.reserve({RPM: 1}, slot=True)
    stage.lease.undo(charge)
    stage.lease.release(charge)  # idempotent
    assert stage.remaining(RPM) == 10
    await stage.lease.reserve({RPM: 1}, slot=True)


async def test_concurrent_requests_are_limited_until_one_ends() -> None:
    stage = Stage(Limits(concurrent_requests=2))
    first = await stage.lease.reserve({}, slot=True)
    await stage.lease.reserve({}, slot=True)
    with pytest.raises(RateLimitExceeded, match="concurrent requests: Limit 2, Used 2"):
        await stage.lease.reserve({}, slot=True)
    stage.lease.release(first)
    stage.clock.now += 1
    assert await stage.lease.reserve({}, slot=True)


async def test_closing_returns_unused_units_and_slots_to_the_store() -> None:
    stage = Stage(Limits(requests_per_minute=600, concurrent_requests=32))
    charges = [await stage.lease.reserve({RPM: 1}, slot=True) for _ in range(4)]
    for charge in charges:
        stage.lease.release(charge)
    await stage.lease.close()
    other = Lease(stage.lease.subject, stage.lease.limits, stage.store, "gateway-2", StoreCircuit(stage.clock))
    await other.reserve({RPM: 596}, slot=True)
    with pytest.raises(RateLimitExceeded):
        await other.reserve({RPM: 1}, slot=False)


async def test_an_unavailable_store_takes_nothing() -> None:
    stage = Stage(Limits(requests_per_minute=10))
    stage.store.absence.away = True
    with pytest.raises(StoreUnavailable):
        await stage.lease.reserve({RPM: 1}, slot=False)
    stage.store.absence.away = False
    stage.clock.now += 2
    await stage.lease.reserve({RPM: 10}, slot=False)
