"""The limits of subjects: configured ones over the operator's defaults, cached for seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from auth_billing.early_reads import EARLY_SHARE
from auth_billing.errors import StoreUnavailable
from auth_billing.rate_limits.limit_registry import CACHE_TTL, LimitRegistry, LimitSetting, inherit_limits
from auth_billing.rate_limits.limits import (
    UNLIMITED,
    Limits,
    Subject,
    SubjectKind,
    key_subject,
    project_subject,
)
from auth_billing.rate_limits.store_circuit import OPEN_PERIOD, StoreCircuit
from tests.fakes.accounts import FakeClock
from tests.fakes.rate_buckets import DictLimitStore

KEY, PROJECT = key_subject("k0", ""), project_subject("proj_1")


class Stage:
    def __init__(self) -> None:
        self.clock, self.store = FakeClock(100.0), DictLimitStore()
        defaults = {SubjectKind.KEY: Limits(requests_per_minute=60, tokens_per_minute=1000)}
        self.registry = LimitRegistry(self.store, defaults, StoreCircuit(self.clock))

    async def of(self, subject: Subject) -> Limits:
        return (await self.registry.limits_of([subject]))[0]


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_administrators_limits_lower_the_defaults_of_their_kind(stage: Stage) -> None:
    stage.store.limits[KEY.id] = Limits(requests_per_minute=5, tokens_per_minute=UNLIMITED, requests_per_day=9)
    assert await stage.of(KEY) == Limits(requests_per_minute=5, tokens_per_minute=1000, requests_per_day=9)
    assert await stage.of(PROJECT) == Limits()


async def test_the_operators_limits_of_one_subject_replace_the_defaults(stage: Stage) -> None:
    stage.store.limits[KEY.operator_id] = Limits(requests_per_minute=500)
    assert await stage.of(KEY) == Limits(requests_per_minute=500, tokens_per_minute=1000)
    changed = await stage.registry.change(KEY, Limits(requests_per_minute=700, tokens_per_minute=7))
    assert await stage.of(KEY) == changed == Limits(requests_per_minute=500, tokens_per_minute=7)


async def test_a_change_is_in_force_here_at_once(stage: Stage) -> None:
    await stage.of(KEY)
    changed = await stage.registry.change(KEY, Limits(requests_per_minute=7))
    assert await stage.of(KEY) == changed == Limits(requests_per_minute=7, tokens_per_minute=1000)


async def test_limits_are_read_again_after_seconds_and_kept_while_the_store_is_away(stage: Stage) -> None:
    await stage.of(KEY)
    stage.store.limits[KEY.id] = Limits(requests_per_minute=5)
    stage.clock.now += CACHE_TTL - 0.1
    assert (await stage.of(KEY)).requests_per_minute == 60
    stage.store.absence.away = True
    stage.clock.now += 2
    assert (await stage.of(KEY)).requests_per_minute == 60
    stage.store.absence.away = False
    stage.clock.now += OPEN_PERIOD
    assert (await stage.of(KEY)).requests_per_minute == 5


async def test_limits_in_use_are_read_again_before_they_expire(stage: Stage) -> None:
    await stage.of(KEY)
    stage.store.limits[KEY.id] = Limits(requests_per_minute=5)
    stage.clock.now += (1 - EARLY_SHARE) * CACHE_TTL
    before = stage.store.absence.asked
    for _ in range(3):
        assert (await stage.of(KEY)).requests_per_minute == 60
    await asyncio.sleep(0)
    assert (await stage.of(KEY)).requests_per_minute == 5
    stage.clock.now += CACHE_TTL / 2
    await stage.of(KEY)
    assert stage.store.absence.asked == before + 1


async def test_limits_that_are_not_known_need_the_store(stage: Stage) -> None:
    stage.store.absence.away = True
    with pytest.raises(StoreUnavailable):
        await stage.of(KEY)


async def test_concurrent_requests_read_the_store_once(stage: Stage) -> None:
    before = stage.store.absence.asked
    await asyncio.gather(*(stage.of(KEY) for _ in range(20)))
    assert stage.store.absence.asked == before + 1


async def test_a_read_that_began_before_a_change_does_not_undo_it(stage: Stage) -> None:
    await stage.of(KEY)
    stage.clock.now += CACHE_TTL
    may_end, find = asyncio.Event(), stage.store.find

    async def slow(subjects: Sequence[str]) -> dict[str, Limits]:
        found = await find(subjects)
        await may_end.wait()
        return found

    stage.store.find = slow  # type: ignore[method-assign]
    reading = asyncio.create_task(stage.of(KEY))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    stage.store.find = find  # type: ignore[method-assign]
    stage.clock.now += 0.1
    await stage.registry.change(KEY, Limits(requests_per_minute=2))
    may_end.set()
    assert (await reading).requests_per_minute == (await stage.of(KEY)).requests_per_minute == 2


async def test_settings_tell_the_administrators_limits_from_the_operators(stage: Stage) -> None:
    stage.store.limits[KEY.operator_id] = Limits(requests_per_minute=50)
    stage.store.limits[KEY.id] = Limits(requests_per_minute=70, tokens_per_minute=7)
    keys, project = await stage.registry.settings_of([KEY, PROJECT])
    assert keys == LimitSetting(Limits(requests_per_minute=70, tokens_per_minute=7), Limits(50, 1000))
    assert keys.in_force == await stage.of(KEY) == Limits(50, 7)
    assert project == LimitSetting(Limits(), Limits())


async def test_a_key_that_replaces_another_inherits_its_limits(stage: Stage) -> None:
    stage.store.limits |= {KEY.id: Limits(5), KEY.operator_id: Limits(concurrent_requests=3), "key:k2": Limits(9)}
    await inherit_limits(stage.store, "k0", "k1")
    await inherit_limits(stage.store, "k9", "k8")
    heir = key_subject("k1", "")
    assert (stage.store.limits[heir.id], stage.store.limits[heir.operator_id]) == (
        Limits(5),
        Limits(None, None, None, 3),
    )
    assert len(stage.store.limits) == 5
