"""Properties of the bucket arithmetic, for arbitrary sequences of events."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from auth_billing.rate_limits import bucket
from auth_billing.rate_limits.limits import BucketRate

capacities = st.one_of(st.integers(1, 20), st.integers(1, 10**9 - 1))
periods = st.sampled_from([60.0, 86_400.0])
pauses = st.floats(0, 200, allow_nan=False)
now_ = 1.8e9


@given(capacities, periods)
def test_a_new_bucket_is_full_and_an_empty_one_is_empty(capacity: int, period: float) -> None:
    rate = BucketRate(capacity, period)
    assert bucket.available(rate, 0.0, now_) == capacity
    empty = bucket.after(rate, 0.0, now_, capacity)
    assert 0 <= bucket.available(rate, empty, now_) <= 2 * bucket.ROUNDING / rate.unit
    assert bucket.available(rate, empty, now_ + period) == capacity


@settings(max_examples=200)
@given(st.integers(1, 1000), periods, st.lists(st.tuples(pauses, st.integers(1, 1200)), max_size=40))
def test_any_period_yields_at_most_a_bucketful_and_the_refill(
    capacity: int, period: float, asked: list[tuple[float, int]]
) -> None:
    rate, full_at, now = BucketRate(capacity, period), 0.0, now_
    given_out: list[tuple[float, int]] = []
    for pause, units in asked:
        now += pause
        taken = min(units, bucket.available(rate, full_at, now))
        full_at = bucket.after(rate, full_at, now, taken)
        given_out.append((now, taken))
    for i, (begin, _) in enumerate(given_out):
        total = 0
        for end, taken in given_out[i:]:
            total += taken
            assert total <= capacity + (end - begin) / rate.unit + 0.01


@given(st.integers(1, 10**6), periods, st.floats(0, 2), st.data())
def test_units_are_available_after_the_announced_wait_and_not_much_earlier(
    capacity: int, period: float, emptiness: float, data: st.DataObject
) -> None:
    rate = BucketRate(capacity, period)
    full_at = now_ + emptiness * period
    units = data.draw(st.integers(1, capacity))
    wait = bucket.wait(rate, full_at, now_, units)
    assert bucket.available(rate, full_at, now_ + wait + 1e-6) >= units
    early = 0.01
    if wait > early:
        assert bucket.available(rate, full_at, now_ + wait - early) < units


@given(st.integers(1, 1000), periods, st.integers(-5000, 5000))
def test_surplus_and_debt_are_bounded(capacity: int, period: float, units: int) -> None:
    rate = BucketRate(capacity, period)
    room = bucket.available(rate, bucket.after(rate, 0.0, now_, units), now_)
    assert -capacity <= room <= capacity
    assert room == max(-capacity, min(capacity, capacity - units))


@given(st.integers(1, 1000), periods, st.floats(-1e7, 1e7), st.integers(0, 1000), pauses)
def test_a_clock_step_gives_at_most_a_bucketful_and_blocks_briefly(
    capacity: int, period: float, step: float, taken: int, pause: float
) -> None:
    rate = BucketRate(capacity, period)
    full_at = bucket.after(rate, 0.0, now_, min(taken, capacity))
    now = now_ + step + pause
    assert -capacity <= bucket.available(rate, full_at, now) <= capacity
    assert bucket.wait(rate, full_at, now, 1) <= period + rate.unit
