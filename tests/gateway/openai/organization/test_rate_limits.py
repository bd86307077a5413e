"""Request models of rate limits."""

from __future__ import annotations

import pytest

from auth_billing.rate_limits.limits import UNLIMITED
from gateway.errors import InvalidRequest, UnsupportedParameter
from gateway.openai.organization.rate_limits import RateLimitQuery, RateLimitUpdate


def test_limits_are_between_one_and_unlimited() -> None:
    assert RateLimitUpdate.parse({"max_requests_per_1_day": UNLIMITED}).max_requests_per_1_day == UNLIMITED
    for value in (0, UNLIMITED + 1):
        with pytest.raises(InvalidRequest):
            RateLimitUpdate.parse({"max_tokens_per_1_minute": value})


def test_limits_of_images_are_not_supported() -> None:
    with pytest.raises(UnsupportedParameter):
        RateLimitUpdate.parse({"max_images_per_1_minute": 1})


def test_a_page_has_up_to_a_hundred_limits_by_default() -> None:
    assert RateLimitQuery.parse_query([]).limit == 100
