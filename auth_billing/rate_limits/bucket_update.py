"""Applies an order to a subject's buckets and slots. Pure arithmetic; the stores keep the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from auth_billing.rate_limits import bucket
from auth_billing.rate_limits.limits import Dimension
from auth_billing.rate_limits.ports import Order, Position, Slots


@dataclass(frozen=True)
class Held:
    """Slots of one holder, and when its hold on them expires."""

    slots: int
    until: float


@dataclass(frozen=True)
class State:
    """Stored state of a subject: when each bucket will be full, and the holders of slots."""

    full_at: Mapping[Dimension, float] = field(default_factory=dict)
    holders: Mapping[str, Held] = field(default_factory=dict)


def carry_out(state: State, order: Order, now: float) -> tuple[State | None, Position]:
    """Return the new state, or `None` if the order can't be fulfilled, and the result. `now`: the store's time."""
    others = {name: held for name, held in state.holders.items() if name != order.holder and held.until > now}
    other_slots = sum(held.slots for held in others.values())
    full_at = {
        dimension: bucket.after(line.rate, state.full_at.get(dimension, 0.0), now, -line.back)
        for dimension, line in order.lines.items()
    }
    rooms = {dimension: bucket.room(line.rate, full_at[dimension], now) for dimension, line in order.lines.items()}
    slots = order.slots
    lacking = any(rooms[dimension] < line.need for dimension, line in order.lines.items() if line.need)
    if lacking or (slots is not None and not _has_room(slots, other_slots)):
        stands = {dimension: state.full_at.get(dimension, 0.0) for dimension in order.lines}
        return None, Position(now, fulfilled=False, full_at=stands, other_slots=other_slots)
    taken = {dimension: max(0, min(line.want, rooms[dimension])) for dimension, line in order.lines.items()}
    for dimension, line in order.lines.items():
        full_at[dimension] = bucket.after(line.rate, full_at[dimension], now, taken[dimension])
    mine = 0 if slots is None else max(slots.running, min(slots.want, slots.limit - other_slots))
    holders = state.holders if slots is None else {**others, order.holder: Held(mine, now + slots.seconds)}
    return (
        State({**state.full_at, **full_at}, holders),
        Position(now, fulfilled=True, full_at=full_at, taken=taken, slots=mine, other_slots=other_slots),
    )


def _has_room(slots: Slots, others: int) -> bool:
    """Whether the slots are available; running requests keep theirs even if the limit was lowered."""
    return slots.need <= slots.running or slots.need <= slots.limit - others
