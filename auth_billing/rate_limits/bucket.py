"""The arithmetic of a bucket that refills steadily, whose whole state is the moment at which it will be full.

(This is the generic cell rate algorithm, ITU-T I.371, with that moment as its theoretical arrival time.) Taking units
moves the moment into the future, by the time in which they come back; giving them back moves it to the past. A bucket
holds a whole period's units, so a burst may take all of them; it may be in debt by as much again.

Times are seconds of any one clock. A moment that no debt explains means that the clock was set back: the bucket
starts afresh.
"""

from __future__ import annotations

import math

from auth_billing.rate_limits.limits import Rate

MOST_PERIODS = 2.0
"""How far ahead the moment can be: an empty bucket is one period ahead, a debt another."""
ROUNDING = 1e-6
"""Seconds that sums of Unix times may be off by: a double holds them to a fourth of that."""


def missing_seconds(rate: Rate, full_at: float, now: float) -> float:
    """Until it is full: 0 to two periods."""
    ahead = full_at - now
    return 0.0 if ahead <= 0 or ahead > MOST_PERIODS * rate.period else ahead


def room(rate: Rate, full_at: float, now: float) -> int:
    """Whole units in it; below 0: a debt."""
    there = math.floor((rate.period - missing_seconds(rate, full_at, now) + ROUNDING) / rate.unit)
    return min(there, rate.capacity)


def after(rate: Rate, full_at: float, now: float, taken: float) -> float:
    """When it will be full once `taken` units are taken (below 0: given back)."""
    missing = missing_seconds(rate, full_at, now) + taken * rate.unit
    return now + min(max(missing, 0.0), MOST_PERIODS * rate.period)


def wait(rate: Rate, full_at: float, now: float, units: int) -> float:
    """Seconds until it holds `units`, if nobody takes any; 0: it does."""
    if room(rate, full_at, now) >= units:
        return 0.0
    return missing_seconds(rate, full_at, now) + units * rate.unit - rate.period
