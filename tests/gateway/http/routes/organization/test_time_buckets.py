"""Periods of usage reports: buckets, pages and their limits."""

from __future__ import annotations

import time

import pytest

from gateway.errors import InvalidRequest
from gateway.http.routes.organization.time_buckets import (
    MAX_PERIOD,
    Period,
    next_page,
    page_of_period,
    requested_period,
)


def test_buckets_begin_at_multiples_of_their_width() -> None:
    assert Period(50, 190).buckets(60, 10) == [Period(50, 60), Period(60, 120), Period(120, 180), Period(180, 190)]
    assert Period(50, 190).buckets(60, 2) == [Period(50, 60), Period(60, 120)]


def test_without_an_end_a_period_ends_now() -> None:
    period = requested_period(5 + int(time.time()) - 60, None)
    assert 50 <= period.until - period.since <= 60


@pytest.mark.parametrize(("start", "end", "param"), [(10, 10, "end_time"), (0, MAX_PERIOD + 1, "start_time")])
def test_empty_and_overlong_periods_are_refused(start: int, end: int, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        requested_period(start, end)
    assert caught.value.param == param


def test_a_page_token_continues_its_own_period_only() -> None:
    period = Period(100, 200)
    assert page_of_period(period, None) == period
    assert page_of_period(period, next_page(160)) == Period(160, 200)
    for page in (next_page(100), next_page(200), "page_x", "160"):
        with pytest.raises(InvalidRequest):
            page_of_period(period, page)
