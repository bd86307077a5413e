"""The schedule of faults, derived from a seed alone, so that a run can be repeated.

Has names and seconds only; `nemeses.py` implements the faults.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """One nemesis of a configuration: strikes every `every` seconds or so, each time for as long as drawn."""

    nemesis: str
    every: float
    lasts: tuple[float, float] = (0.0, 0.0)
    """Seconds, the least and the most."""
    first: float = 0.0
    """Seconds before which nothing happens; by default a part of `every`."""


@dataclass(frozen=True)
class Fault:
    """One strike. Times are seconds since the load began; `target` is any number, taken modulo what there is."""

    at: float
    nemesis: str
    target: int
    lasts: float


def schedule(seed: int, plans: Sequence[Plan], seconds: float) -> list[Fault]:
    """All strikes of a run of `seconds`, in order; each is over before the end."""
    faults = [fault for plan in plans for fault in _of_one(random.Random(f"{seed}:{plan.nemesis}"), plan, seconds)]
    return sorted(faults, key=lambda fault: (fault.at, fault.nemesis))


def _of_one(draw: random.Random, plan: Plan, seconds: float) -> list[Fault]:
    found: list[Fault] = []
    at = plan.first or plan.every * draw.uniform(0.4, 0.9)
    while True:
        lasts = draw.uniform(*plan.lasts)
        if at + lasts >= seconds:
            return found
        found.append(Fault(round(at, 2), plan.nemesis, draw.randrange(1000), round(lasts, 2)))
        at += lasts + plan.every * draw.uniform(0.8, 1.2)
