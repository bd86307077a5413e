"""Versions of the price list: append-only, and seen by each gateway within seconds. Both stores pass these tests."""

from __future__ import annotations

import asyncio

import pytest

from auth_billing.errors import NoPrice, StoreUnavailable
from auth_billing.prices.price_book import CACHE_TTL, PriceBook, PriceStore
from auth_billing.prices.price_file import PriceFile
from auth_billing.store.connection import StoreConnection
from auth_billing.store.prices import MongoPriceStore
from router.messages import ServiceClass
from tests.fakes.accounts import FakeClock
from tests.fakes.prices import ListPriceStore


def file(price: str, model: str = "gpt-4.1") -> PriceFile:
    tiers = {"flex": "0.5", "priority": {"input": "9", "output": "9"}}
    entry = {"input": price, "output": "1", "tiers": tiers}
    return PriceFile.model_validate({"models": {model: entry}, "default": {"embedding": price}})


@pytest.fixture
def store(store_connection: StoreConnection | None) -> PriceStore:
    return ListPriceStore() if store_connection is None else MongoPriceStore(store_connection)


async def test_loading_changed_prices_adds_a_version_and_equal_ones_do_not(store: PriceStore) -> None:
    book = PriceBook(store, clock=FakeClock(5.5))
    first = await book.load(file("1"))
    assert (first.prices, first.at) == (file("1").price_list(1), 5.5)
    assert await PriceBook(store, clock=FakeClock(9)).load(file("1")) == first
    assert (await book.load(file("2"))).prices.version == 2
    assert (await book.load(file("1"))).prices.version == 3
    newest = await store.newest()
    assert newest is not None
    assert newest.prices == file("1").price_list(3)


async def test_concurrent_loads_add_one_version(store: PriceStore) -> None:
    loaded = await asyncio.gather(*(PriceBook(store).load(file("1")) for _ in range(8)))
    assert {each.prices.version for each in loaded} == {1}


async def test_each_gateway_sees_a_new_version_within_seconds(store: PriceStore) -> None:
    seconds = FakeClock()
    book = PriceBook(store, monotonic=seconds)
    with pytest.raises(NoPrice):
        (await book.current()).price("gpt-4.1", ServiceClass.DEFAULT)
    await PriceBook(store).load(file("1"))
    assert (await book.current()).version == 1  # before the first version it is asked for each time
    await PriceBook(store).load(file("2"))
    seconds.now += CACHE_TTL - 1
    assert (await book.current()).version == 1
    seconds.now += 1
    assert (await book.current()).price("gpt-4.1", ServiceClass.FLEX).input == 1000
    assert (await book.current()).price("another", ServiceClass.DEFAULT).output == 0


async def test_while_the_store_is_away_the_last_prices_are_used() -> None:
    store, seconds = ListPriceStore(), FakeClock()
    book = PriceBook(store, monotonic=seconds)
    store.absence.away = True
    with pytest.raises(StoreUnavailable):
        await book.current()
    store.absence.away = False
    await book.load(file("1"))
    assert (await book.current()).version == 1
    store.absence.away = True
    seconds.now += CACHE_TTL
    assert (await book.current()).version == 1


async def test_concurrent_requests_read_the_store_once() -> None:
    store = ListPriceStore()
    book = PriceBook(store)
    await book.load(file("1"))
    before = store.absence.asked
    await asyncio.gather(*(book.current() for _ in range(50)))
    assert store.absence.asked == before + 1
