"""Computes an update of one subject's rate-limit buckets and slots. Pure arithmetic; the stores keep the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from auth_billing.rate_limits import bucket
from auth_billing.rate_limits.limits import Dimension
from auth_billing.rate_limits.ports import BucketUpdate, SlotUpdate, UpdateResult


@dataclass(frozen=True)
class SlotHolding:
    """Slots for concurrent requests that one process holds, and when its hold on them expires (store's time)."""

    slots: int
    until: float


@dataclass(frozen=True)
class SubjectState:
    """Stored state of a subject of rate limits: when each bucket will be full, and which process holds which slots."""

    full_at: Mapping[Dimension, float] = field(default_factory=dict)
    holders: Mapping[str, SlotHolding] = field(default_factory=dict)


def apply_update(state: SubjectState, update: BucketUpdate, now: float) -> tuple[SubjectState | None, UpdateResult]:
    """Compute an update of one subject's rate-limit buckets and slots, without storing it.

    Return the new state, `None` if the update can't be applied, and the result for the caller. `now`: the store's time
    in seconds.
    """
    others = {name: held for name, held in state.holders.items() if name != update.holder and held.until > now}
    other_slots = sum(held.slots for held in others.values())
    full_at = {
        dimension: bucket.after(units.rate, state.full_at.get(dimension, 0.0), now, -units.returned)
        for dimension, units in update.units.items()
    }
    available = {
        dimension: bucket.available(units.rate, full_at[dimension], now) for dimension, units in update.units.items()
    }
    slots = update.slots
    lacking = any(available[dimension] < units.minimum for dimension, units in update.units.items() if units.minimum)
    if lacking or (slots is not None and not _slots_available(slots, other_slots)):
        stands = {dimension: state.full_at.get(dimension, 0.0) for dimension in update.units}
        return None, UpdateResult(now, applied=False, full_at=stands, other_slots=other_slots)
    taken = {dimension: max(0, min(units.wanted, available[dimension])) for dimension, units in update.units.items()}
    for dimension, units in update.units.items():
        full_at[dimension] = bucket.after(units.rate, full_at[dimension], now, taken[dimension])
    mine = 0 if slots is None else max(slots.running, min(slots.wanted, slots.limit - other_slots))
    holders = state.holders if slots is None else {**others, update.holder: SlotHolding(mine, now + slots.ttl)}
    return (
        SubjectState({**state.full_at, **full_at}, holders),
        UpdateResult(now, applied=True, full_at=full_at, taken=taken, slots=mine, other_slots=other_slots),
    )


def _slots_available(slots: SlotUpdate, others: int) -> bool:
    """Whether the slots are available; running requests keep theirs even if the limit was lowered."""
    return slots.minimum <= slots.running or slots.minimum <= slots.limit - others
