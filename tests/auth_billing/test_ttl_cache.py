"""A bounded cache whose entries expire: time to live, eviction and removal."""

from __future__ import annotations

import pytest

from auth_billing.ttl_cache import TtlCache
from tests.fakes.accounts import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(100.0)


@pytest.fixture
def cache(clock: FakeClock) -> TtlCache[str, int]:
    return TtlCache(10.0, 3, clock)


def test_an_entry_expires_at_the_end_of_its_time_to_live(cache: TtlCache[str, int], clock: FakeClock) -> None:
    cache.put("a", 1)
    clock.now += 9.9
    assert cache.get("a") == 1
    clock.now += 0.1
    assert cache.get("a") is None


def test_putting_again_restarts_the_time_to_live_and_replacing_does_not(
    cache: TtlCache[str, int], clock: FakeClock
) -> None:
    for key in ("a", "b"):
        cache.put(key, 1)
    clock.now += 6
    cache.put("a", 2)
    cache.replace("b", 2)
    assert (cache.get("a"), cache.get("b")) == (2, 2)
    clock.now += 6
    assert (cache.get("a"), cache.get("b")) == (2, None)


def test_the_oldest_entry_is_evicted(cache: TtlCache[str, int]) -> None:
    for number, key in enumerate("abc"):
        cache.put(key, number)
    cache.put("a", 5)
    cache.put("d", 6)
    assert [cache.get(key) for key in "abcd"] == [5, None, 2, 6]


def test_entries_are_removed_by_key_and_by_value(cache: TtlCache[str, int]) -> None:
    for number, key in enumerate("abc"):
        cache.put(key, number)
    cache.forget("a")
    cache.forget("missing")
    cache.forget_all(lambda value: value > 1)
    assert [cache.get(key) for key in "abc"] == [None, 1, None]
