"""Settings are read again every few seconds, and kept while the store is unavailable."""

from __future__ import annotations

import asyncio

import pytest

from auth_billing.confirmed_cache import CONFIRMED_TTL, STALE_TTL, ConfirmedCache
from auth_billing.early_reads import EARLY_SHARE
from auth_billing.errors import StoreUnavailable
from tests.fakes.accounts import FakeClock


class Setting:
    """A setting in a store that can be unavailable."""

    def __init__(self) -> None:
        self.value: str | None = "first"
        self.reads = 0
        self.available = True

    async def find(self) -> str | None:
        self.reads += 1
        if not self.available:
            raise StoreUnavailable("down")
        return self.value


async def test_a_change_is_seen_seconds_later_or_at_once_after_forget(clock: FakeClock) -> None:
    cache, setting = ConfirmedCache[str, str | None](2, clock), Setting()
    assert await cache.read("org-1", setting.find) == "first"
    setting.value = None
    assert await cache.read("org-1", setting.find) == "first"
    clock.now += CONFIRMED_TTL
    assert await cache.read("org-1", setting.find) is None
    setting.value = "third"
    cache.forget("org-1")
    assert await cache.read("org-1", setting.find) == "third"
    assert setting.reads == 3


async def test_a_setting_is_kept_while_the_store_is_unavailable_and_an_unknown_one_refused(clock: FakeClock) -> None:
    cache, setting = ConfirmedCache[str, str | None](2, clock), Setting()
    await cache.read("org-1", setting.find)
    setting.available = False
    clock.now += CONFIRMED_TTL
    for _ in range(3):
        assert await cache.read("org-1", setting.find) == "first"
    assert setting.reads == 2
    with pytest.raises(StoreUnavailable):
        await cache.read("org-2", setting.find)
    clock.now += STALE_TTL
    with pytest.raises(StoreUnavailable):
        await cache.read("org-1", setting.find)


async def test_a_setting_in_use_is_read_again_before_it_expires(clock: FakeClock) -> None:
    cache, setting = ConfirmedCache[str, str | None](2, clock), Setting()
    await cache.read("org-1", setting.find)
    setting.value = "second"
    clock.now += (1 - EARLY_SHARE) * CONFIRMED_TTL
    assert await cache.read("org-1", setting.find) == "first"
    await asyncio.sleep(0)
    clock.now += CONFIRMED_TTL / 2  # later than the first read is confirmed for
    setting.available = False
    assert await cache.read("org-1", setting.find) == "second"
    assert setting.reads == 2


async def test_an_early_read_does_not_undo_a_change(clock: FakeClock) -> None:
    cache, setting, may_end = ConfirmedCache[str, str | None](2, clock), Setting(), asyncio.Event()

    async def find_slowly() -> str | None:
        value = await setting.find()
        await may_end.wait()
        return value

    await cache.read("org-1", setting.find)
    clock.now += (1 - EARLY_SHARE) * CONFIRMED_TTL
    await cache.read("org-1", find_slowly)
    await asyncio.sleep(0)
    setting.value = "second"
    cache.forget("org-1")
    may_end.set()
    await asyncio.sleep(0)
    assert await cache.read("org-1", setting.find) == "second"
