"""Prices: exact costs, and models without a price."""

from __future__ import annotations

import pytest

from auth_billing.errors import NoPrice, UnacceptableValue
from auth_billing.prices.pricing import MAX_UNIT_PRICE, MAX_UNITS, Price, PriceList, TokenRate, check_rate
from router.messages import ServiceClass, Usage

RATES = dict.fromkeys(ServiceClass, TokenRate(2, 1, 10))


def test_cached_tokens_have_their_own_price() -> None:
    price = Price(150, 75, 600, version=1)
    assert price.cost(Usage(prompt_tokens=10, cached_tokens=4, completion_tokens=3)) == 6 * 150 + 4 * 75 + 3 * 600
    assert price.cost(Usage(prompt_tokens=0)) == 0


def test_a_price_has_the_version_of_its_list() -> None:
    prices = PriceList(7, {"m": RATES}, None)
    assert prices.price("m", ServiceClass.FLEX) == Price(2, 1, 10, version=7)
    with pytest.raises(NoPrice):
        prices.price("other", ServiceClass.FLEX)
    assert PriceList(7, {}, RATES).price("other", ServiceClass.DEFAULT).version == 7


def test_units_have_prices_of_their_own() -> None:
    price = Price(0, 0, 0, version=1, units={"512x512": 40_000_000, "call": 1})
    used = Usage(prompt_tokens=9, units={"512x512": 3, "call": 2})
    assert (price.cost(used), price.unit_cost(used), price.covers(used)) == (120_000_002, 120_000_002, True)
    assert not price.covers(Usage(prompt_tokens=0, units={"1024x1024": 1}))


def test_a_unit_without_a_price_is_refused_and_a_tool_without_an_entry_is_free() -> None:
    image = dict.fromkeys(ServiceClass, TokenRate(0, 0, 0, units={"512x512": 5}))
    prices = PriceList(7, {"image": image, "tool.paid": image}, RATES)
    drawn, larger = (Usage(prompt_tokens=0, units={size: 1}) for size in ("512x512", "1024x1024"))
    assert prices.price_of("image", drawn, ServiceClass.FLEX).cost(drawn) == 5
    with pytest.raises(NoPrice):
        prices.price_of("image", larger, ServiceClass.FLEX)
    with pytest.raises(NoPrice):  # the default has no price of images
        prices.price_of("other", drawn, ServiceClass.FLEX)
    call = Usage(prompt_tokens=10, units={"call": 1})
    assert prices.price_of("tool.free", call, ServiceClass.FLEX).cost(call) == 0
    assert prices.price_of("tool.paid", drawn, ServiceClass.FLEX).cost(drawn) == 5


@pytest.mark.parametrize(
    "units",
    [
        {"a.b": 1},
        {"": 1},
        {"$x": 1},
        {"x" * 33: 1},
        {"call": -1},
        {"call": True},
        {"call": MAX_UNIT_PRICE + 1},
        {f"u{number}": 1 for number in range(MAX_UNITS + 1)},
    ],
)
def test_invalid_prices_of_units_are_refused(units: dict[str, int]) -> None:
    with pytest.raises(UnacceptableValue):
        check_rate(TokenRate(0, 0, 0, units=units))
    assert check_rate(TokenRate(0, 0, 0, units={"call": MAX_UNIT_PRICE, "1024x1024": 0}))
