"""Arithmetic of a token bucket that refills steadily, whose only state is the time at which the bucket will be full.

(This is the generic cell rate algorithm, ITU-T I.371; the time is its theoretical arrival time.) Taking units moves the
time forward by the time in which they refill; giving units back moves it backward. A bucket holds one period's units,
so a burst may take all of them; its debt is at most as much again.

Times are seconds of any one clock. A time that is too far ahead means that the clock was set back: the bucket is
treated as full.
"""

from __future__ import annotations

import math

from auth_billing.rate_limits.limits import BucketRate

MAX_PERIODS = 2.0
"""Limit of how far ahead the time can be: an empty bucket is one period ahead, the largest debt another."""
ROUNDING = 1e-6
"""Error of sums of Unix times, in seconds: a double represents them to a fourth of that."""


def missing_seconds(rate: BucketRate, full_at: float, now: float) -> float:
    """Return the seconds from `now` until the bucket is full, given the stored time `full_at`: 0 to two periods."""
    ahead = full_at - now
    return 0.0 if ahead <= 0 or ahead > MAX_PERIODS * rate.period else ahead


def available(rate: BucketRate, full_at: float, now: float) -> int:
    """Return how many whole units a rate-limit bucket has at `now`, given the time `full_at` at which it will be full.

    A negative number is the bucket's debt.
    """
    there = math.floor((rate.period - missing_seconds(rate, full_at, now) + ROUNDING) / rate.unit)
    return min(there, rate.capacity)


def after(rate: BucketRate, full_at: float, now: float, taken: float) -> float:
    """Return the new time at which a rate-limit bucket will be full, after `taken` units are taken from it at `now`.

    `full_at` is the time before. A negative `taken` gives units back. The bucket's debt is limited to one period's
    units.
    """
    missing = missing_seconds(rate, full_at, now) + taken * rate.unit
    return now + min(max(missing, 0.0), MAX_PERIODS * rate.period)


def wait(rate: BucketRate, full_at: float, now: float, units: int) -> float:
    """Return the seconds until a bucket, full at `full_at`, has `units`, if none are taken; 0: it has them at `now`."""
    if available(rate, full_at, now) >= units:
        return 0.0
    return missing_seconds(rate, full_at, now) + units * rate.unit - rate.period
