"""Prices: exact costs, and models without a price."""

from __future__ import annotations

import pytest

from auth_billing.errors import NoPrice
from auth_billing.prices.pricing import Price, PriceList, TokenRate
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
