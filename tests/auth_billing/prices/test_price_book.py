"""Versions of the price list: append-only, and seen by each gateway within seconds. Both stores pass these tests."""

from __future__ import annotations

import asyncio

import pytest

from auth_billing.early_reads import EARLY_SHARE
from auth_billing.errors import NoPrice, PricesChanged, StoreUnavailable, UnacceptableValue
from auth_billing.prices.price_book import CACHE_TTL, PriceBook, PriceStore
from auth_billing.prices.price_file import PriceFile
from auth_billing.prices.pricing import MAX_TOKEN_PRICE, RateCard, TokenRate
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


@pytest.fixture
def fake_store() -> ListPriceStore:
    return ListPriceStore()


@pytest.fixture
def seconds() -> FakeClock:
    return FakeClock()


@pytest.fixture
def book(store: PriceStore, seconds: FakeClock) -> PriceBook:
    """The price book of one gateway, whose prices expire by `seconds`."""
    return PriceBook(store, clock=FakeClock(5.5), monotonic=seconds)


@pytest.fixture
def fake_book(fake_store: ListPriceStore, seconds: FakeClock) -> PriceBook:
    """As `book`, over `fake_store`, which can be away and counts reads."""
    return PriceBook(fake_store, monotonic=seconds)


async def test_loading_changed_prices_adds_a_version_and_equal_ones_do_not(store: PriceStore, book: PriceBook) -> None:
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


async def test_each_gateway_sees_a_new_version_within_seconds(
    store: PriceStore, book: PriceBook, seconds: FakeClock
) -> None:
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


async def test_while_the_store_is_away_the_last_prices_are_used(
    fake_store: ListPriceStore, fake_book: PriceBook, seconds: FakeClock
) -> None:
    fake_store.absence.away = True
    with pytest.raises(StoreUnavailable):
        await fake_book.current()
    fake_store.absence.away = False
    await fake_book.load(file("1"))
    assert (await fake_book.current()).version == 1
    fake_store.absence.away = True
    seconds.now += CACHE_TTL
    assert (await fake_book.current()).version == 1


@pytest.fixture
async def old_book(fake_store: ListPriceStore, fake_book: PriceBook, seconds: FakeClock) -> PriceBook:
    """`fake_book` with version 1 in use, while the store has version 2 and the next use reads it ahead of time."""
    await fake_book.load(file("1"))
    await fake_book.current()
    await PriceBook(fake_store).load(file("2"))
    seconds.now += (1 - EARLY_SHARE) * CACHE_TTL
    return fake_book


async def test_prices_in_use_are_read_again_before_they_expire(
    fake_store: ListPriceStore, old_book: PriceBook, seconds: FakeClock
) -> None:
    before = fake_store.absence.asked
    for _ in range(3):
        assert (await old_book.current()).version == 1
    await asyncio.sleep(0)
    seconds.now += CACHE_TTL / 2
    assert (await old_book.current()).version == 2
    assert fake_store.absence.asked == before + 1


async def test_prices_are_not_in_force_for_longer_after_an_early_read_that_failed(
    fake_store: ListPriceStore, old_book: PriceBook, seconds: FakeClock
) -> None:
    fake_store.absence.away = True
    assert (await old_book.current()).version == 1
    await asyncio.sleep(0)
    fake_store.absence.away = False
    seconds.now += EARLY_SHARE * CACHE_TTL
    assert (await old_book.current()).version == 2


async def test_concurrent_requests_read_the_store_once(fake_store: ListPriceStore, fake_book: PriceBook) -> None:
    await fake_book.load(file("1"))
    before = fake_store.absence.asked
    await asyncio.gather(*(fake_book.current() for _ in range(50)))
    assert fake_store.absence.asked == before + 1


def rates(input: int = 3, cached_input: int = 2, output: int = 6) -> RateCard:
    return dict.fromkeys(ServiceClass, TokenRate(input, cached_input, output))


async def test_an_edit_is_a_new_version_that_this_gateway_uses_at_once(store: PriceStore, book: PriceBook) -> None:
    await book.unlock(file("1"))
    before = await book.current()
    edited = await book.edit("new", rates(), seen=1)
    assert (edited.prices.version, edited.at, edited.in_file) == (2, 5.5, False)
    assert (await book.current()).price("new", ServiceClass.FLEX).output == 6
    assert edited.prices.models["gpt-4.1"] == before.models["gpt-4.1"]
    assert (await book.edit(None, rates(1, 1, 0), seen=2)).prices.price("x", ServiceClass.DEFAULT).version == 3
    assert "new" not in (await book.edit("new", None, seen=3)).prices.models
    assert await store.newest() == await book.newest()


async def test_of_concurrent_edits_of_a_version_one_succeeds(store: PriceStore) -> None:
    await PriceBook(store).unlock(file("1"))
    edits = [PriceBook(store).edit(f"m-{number}", rates(), seen=1) for number in range(8)]
    outcomes = await asyncio.gather(*edits, return_exceptions=True)
    assert sum(not isinstance(each, Exception) for each in outcomes) == 1
    assert sum(isinstance(each, PricesChanged) for each in outcomes) == 7


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        ("m", rates(-1, 0)),
        ("m", rates(MAX_TOKEN_PRICE + 1)),
        ("m", rates(1, 2)),
        ("m", rates(output=True)),
        ("m", rates(output=0.5)),  # type: ignore[arg-type]
        ("a*", rates()),
        ("", rates()),
    ],
)
async def test_invalid_edits_are_refused(
    fake_store: ListPriceStore, fake_book: PriceBook, model: str, wrong: RateCard
) -> None:
    await fake_book.unlock(file("1"))
    with pytest.raises(UnacceptableValue):
        await fake_book.edit(model, wrong, seen=1)
    assert len(fake_store.versions) == 1


async def test_the_last_price_stays(fake_book: PriceBook) -> None:
    await fake_book.unlock(PriceFile.model_validate({"default": {"embedding": "1"}}))
    with pytest.raises(UnacceptableValue, match="last price"):
        await fake_book.edit(None, None, seen=1)
