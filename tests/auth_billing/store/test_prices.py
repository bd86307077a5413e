"""Versions of the price list in MongoDB: read as stored, each number once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auth_billing.prices.price_book import PriceVersion
from auth_billing.prices.pricing import PriceList, TokenRate
from auth_billing.store.connection import StoreConnection
from auth_billing.store.prices import MongoPriceStore
from router.messages import ServiceClass

pytestmark = pytest.mark.store

RATES = {each: TokenRate(number + 3, number + 1, number + 5) for number, each in enumerate(ServiceClass)}
VERSION = PriceVersion(PriceList(1, {"org/model-1.5": RATES, "plain": dict(RATES)}, dict(RATES)), 7.5)


async def test_a_version_is_read_as_stored_even_with_dots_in_a_models_name(connection: StoreConnection) -> None:
    prices = MongoPriceStore(connection)
    assert await prices.newest() is None
    assert await prices.add(VERSION)
    assert await prices.newest() == VERSION
    assert await prices.add(locked := replace(VERSION, prices=replace(VERSION.prices, version=2), in_file=True))
    assert await prices.newest() == locked
    drawn = {each: TokenRate(0, 0, 0, units={"512x512": 7, "call": 1}) for each in ServiceClass}
    assert await prices.add(units := replace(VERSION, prices=PriceList(3, {"painter": drawn}, None)))
    assert await prices.newest() == units


async def test_a_number_is_stored_once_and_the_highest_is_in_force(connection: StoreConnection) -> None:
    prices = MongoPriceStore(connection)
    second = replace(VERSION, prices=PriceList(2, {"plain": RATES}, None))
    assert await prices.add(second)
    assert await prices.add(VERSION)
    assert not await prices.add(replace(VERSION, prices=PriceList(2, {}, dict(RATES))))
    assert await prices.newest() == second
