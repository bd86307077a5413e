"""The operator's notation of rate limits."""

from __future__ import annotations

import pytest

from auth_billing.rate_limits.limits import UNLIMITED, BucketRate, Dimension, Limits, parse_limits


def test_the_operators_notation_is_parsed() -> None:
    text = "600 requests/minute, 90000 tokens/minute,10000 requests/day , 64 concurrent"
    assert parse_limits(text) == Limits(600, 90000, 10000, 64)
    assert parse_limits("") == parse_limits(" , ") == Limits()
    assert str(parse_limits("5 concurrent,9 requests/day")) == "9 requests/day, 5 concurrent"
    assert str(Limits()) == ""


@pytest.mark.parametrize(
    "text",
    ["600", "0 requests/minute", "-1 concurrent", "1 request/minute", "1 concurrent, 2 concurrent", "1e3 concurrent"],
)
def test_malformed_limits_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="limit"):
        parse_limits(text)


def test_a_huge_limit_means_unlimited() -> None:
    limits = Limits(UNLIMITED, UNLIMITED - 1, None, UNLIMITED)
    assert limits.rates == {Dimension.TOKENS_PER_MINUTE: BucketRate(UNLIMITED - 1, 60.0)}
    assert limits.concurrent is None


def test_set_limits_override_defaults() -> None:
    assert Limits(1, 2, None, 4).overridden_by(Limits(None, 5, 6)) == Limits(1, 5, 6, 4)


def test_a_limit_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="requests_per_day"):
        Limits(requests_per_day=0)
