"""Which units of models have a price."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from assistant.tools.unit_prices import UnitPrices
from auth_billing.prices.price_book import PriceBook
from auth_billing.prices.pricing import TokenRate
from router.messages import ServiceClass
from tests.fakes.fleet import until
from tests.fakes.prices import ListPriceStore


@pytest.fixture
async def prices() -> AsyncIterator[UnitPrices]:
    book = PriceBook(ListPriceStore())
    for model, units in (("painter", {"64x64": 3}), (None, {})):
        rate = TokenRate(1, 1, 1, units=units)
        await book.edit(model, dict.fromkeys(ServiceClass, rate), seen=(await book.newest()).prices.version)
    prices = UnitPrices(book)
    assert not prices.has("painter", "64x64"), "nothing was read"
    following = asyncio.create_task(prices.follow())
    await until(lambda: prices.known is not None)
    yield prices
    following.cancel()


async def test_only_units_with_a_price_of_their_own_have_one(prices: UnitPrices) -> None:
    assert prices.has("painter", "64x64")
    assert not prices.has("painter", "128x64")
    assert not prices.has("other", "64x64"), "the default has no units"


async def test_tokens_have_the_price_of_their_model_or_the_default(prices: UnitPrices) -> None:
    assert prices.has_tokens("painter")
    assert prices.known is not None
    assert prices.known.default is not None
    assert prices.has_tokens("other")
