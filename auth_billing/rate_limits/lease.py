"""Serves one subject's rate limits from a gateway's memory, by a lease of units and slots taken from the store before.

A lease takes what a request needs and, under load, what the requests of the next second will need; units that are
unused a second later are given back. So under load most requests are decided in memory, an occasional request costs one
store write and a repeated refusal none, and all gateways together never take more than the store has.

Concurrent requests hold slots, which the store grants for some seconds: a running gateway renews them, those of a
crashed one expire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from auth_billing.errors import RateLimitExceeded, StoreUnavailable, TokenLimitExceeded
from auth_billing.rate_limits import bucket
from auth_billing.rate_limits.limits import BucketRate, Dimension, Limits, Subject
from auth_billing.rate_limits.ports import BucketStore, BucketUpdate, SlotUpdate, UnitUpdate, UpdateResult
from auth_billing.rate_limits.store_circuit import StoreCircuit

ADVANCE_PERIOD = 1.0
"""Seconds of expected load for which units are taken in advance."""
LARGEST_SHARE = 8
"""At most one part in so many of a bucket is taken in advance."""
SPARE_SHARE = 16
"""Slots are taken in sixteenths of the limit; fewer than two sixteenths are kept unused."""
SLOT_LEASE = 30.0
"""Seconds until the slots of a crashed gateway expire."""
SLOT_RENEWAL_INTERVAL = 10.0
"""Seconds between two renewals of slots in use."""
REFUSAL_TTL = 0.5
"""Seconds in which a refusal is repeated without a store call."""
CONCURRENT_WAIT = 1.0
"""Seconds in `Retry-After` when the limit of concurrent requests is reached: their ends are not predictable."""
IDLE_LEASE_TTL = 60.0
"""Seconds without a request after which a lease that holds nothing is forgotten."""

_NAMES = {
    Dimension.REQUESTS_PER_MINUTE: "requests per min (RPM)",
    Dimension.TOKENS_PER_MINUTE: "tokens per min (TPM)",
    Dimension.REQUESTS_PER_DAY: "requests per day (RPD)",
}


@dataclass
class Charge:
    """What one request has taken from the lease of one subject: units by dimension, and perhaps a slot."""

    units: Mapping[Dimension, int]
    gone_at: Mapping[Dimension, float] = field(default_factory=dict)
    """When the bucket will have refilled by itself; after that no units are given back."""
    slot: bool = False


@dataclass(frozen=True)
class LimitStatus:
    """State of one limit in units. `reset`: seconds until the limit is fully available again."""

    limit: int
    remaining: int
    reset: float


@dataclass
class _LocalUnits:
    """Local units of one dimension. `left`: taken from the store and unused (negative: overdrawn)."""

    left: int = 0
    full_at: float = 0.0
    """When the store's bucket will be full, by the local clock."""
    spent: int = 0
    """Units used since the last ones were taken from the store."""
    taken_at: float = -1e9
    waited_for: int = 0
    """Units that waiting requests need."""


class Lease:
    """Units and slots of one subject that this process took from the store in advance. May be dropped when not `used`.

    Args:
        subject: the key, person, project, organisation or model that is limited.
        limits: current limits; assign when they change.
        holder: unique name of this process among those that share the store.
    """

    def __init__(
        self, subject: Subject, limits: Limits, store: BucketStore, holder: str, circuit: StoreCircuit
    ) -> None:
        self.subject = subject
        self.limits = limits
        self._store = store
        self._holder = holder
        self._circuit = circuit
        self._local = {dimension: _LocalUnits() for dimension in Dimension}
        self._running = 0
        self._granted = 0
        self._granted_until = -1e9
        self._renewed_at = -1e9
        self._slots_waited_for = 0
        self._others = 0
        self._refused_at = -1e9
        self._used_at = circuit.now()
        self._lock = asyncio.Lock()

    @property
    def used(self) -> bool:
        """Whether the lease has units or running requests, or had a request within `IDLE_LEASE_TTL` seconds.

        A lease that is not used may be dropped.
        """
        lately = self._circuit.now() - self._used_at < IDLE_LEASE_TTL
        return lately or bool(self._running) or any(local.left for local in self._local.values())

    def reserve_at_once(self, units: Mapping[Dimension, int], *, slot: bool) -> Charge | None:
        """Take `units` of the subject's limited dimensions for one request, and a slot if `slot` is set, from memory.

        Return the charge, or `None`, with nothing taken, if units must come from the store: then call `reserve`.
        """
        charge = self._charge(units, slot=slot)
        if not self._covers(charge):
            return None
        self._debit(charge)
        return charge

    async def reserve(self, units: Mapping[Dimension, int], *, slot: bool) -> Charge:
        """Take `units` of the subject's limited dimensions, and a slot, for one request; return the charge.

        The units come from memory or from the store. A slot is taken only if `slot` is set and concurrency is limited.

        Raises:
            RateLimitExceeded: a limit is reached; nothing is taken.
            StoreUnavailable: the limits could not be checked; nothing is taken.
        """
        charge = self._charge(units, slot=slot)
        if not self._covers(charge):
            self._wait_for(charge, +1)
            try:
                async with self._lock:
                    if not self._covers(charge):
                        await self._take(charge)
            finally:
                self._wait_for(charge, -1)
        self._debit(charge)
        return charge

    def correct(self, charge: Charge, dimension: Dimension, used: int) -> None:
        """Correct one dimension of a request's charge to the units actually `used`: give back or take the difference.

        Units that have refilled in the meantime are not given back.
        """
        taken = charge.units.get(dimension)
        rate = self.limits.rates.get(dimension)
        if taken is None or rate is None:
            return
        still_there = (charge.gone_at[dimension] - self._circuit.now()) / rate.unit
        back = taken - used
        self._local[dimension].left += min(back, max(0, int(still_there)))
        charge.units = {**charge.units, dimension: used}

    def undo(self, charge: Charge) -> None:
        """Give back all units and the slot of a request's charge, as if the request had not been made."""
        for dimension, units in charge.units.items():
            self._local[dimension].left += units
        self.release(charge)

    def release(self, charge: Charge) -> None:
        """Free the concurrency slot of a request's charge when the request has ended; a repetition has no effect."""
        if charge.slot:
            charge.slot = False
            self._running -= 1

    def statuses(self) -> dict[Dimension, LimitStatus]:
        """Return the subject's limit, remaining units and reset time by limited dimension, as known in this process."""
        now = self._circuit.now()
        rates = self.limits.rates
        return {dimension: _status(rate, self._local[dimension], now) for dimension, rate in rates.items()}

    async def maintain(self) -> None:
        """Give the lease's unused units back to the store, and renew the slots in use. Called often; mostly a no-op.

        Raises:
            StoreUnavailable: nothing was changed.
        """
        async with self._lock:
            now = self._circuit.now()
            idle = [d for d, b in self._local.items() if b.left and now - b.taken_at >= ADVANCE_PERIOD]
            slots = self._slots_in_use(spare=True) if self._slots_need_care(now) else None
            await self._give_back(idle, slots, now)

    async def close(self) -> None:
        """Give all units and slots of the lease that are not in use back to the store, when the process stops.

        Raises:
            StoreUnavailable: the units and slots were not returned; slots expire by themselves.
        """
        async with self._lock:
            left = [dimension for dimension, local in self._local.items() if local.left]
            await self._give_back(left, self._slots_in_use(spare=False) if self._granted else None, self._circuit.now())

    # --- in memory --------------------------------------------------------------------------------

    def _charge(self, units: Mapping[Dimension, int], *, slot: bool) -> Charge:
        rates = self.limits.rates
        self._used_at = self._circuit.now()
        return Charge({dimension: n for dimension, n in units.items() if n and dimension in rates}, slot=slot)

    def _covers(self, charge: Charge) -> bool:
        if any(self._local[dimension].left < units for dimension, units in charge.units.items()):
            return False
        if not charge.slot or self.limits.concurrent is None:
            return True
        return self._running < self._granted and self._circuit.now() < self._granted_until

    def _wait_for(self, charge: Charge, sign: int) -> None:
        for dimension, units in charge.units.items():
            self._local[dimension].waited_for += sign * units
        self._slots_waited_for += sign * charge.slot

    def _debit(self, charge: Charge) -> None:
        for dimension, units in charge.units.items():
            local = self._local[dimension]
            local.left -= units
            local.spent += units
        charge.gone_at = {dimension: self._local[dimension].full_at for dimension in charge.units}
        self._running += charge.slot

    # --- with the store ---------------------------------------------------------------------------

    async def _take(self, charge: Charge) -> None:
        """Take units from the store until the local ones cover `charge`; local units are reserved meanwhile."""
        now = self._circuit.now()
        held = {d: min(units, max(0, self._local[d].left)) for d, units in charge.units.items()}
        update = self._update_for(charge, held, now)
        if now - self._refused_at < REFUSAL_TTL:
            self._refuse(charge, update, now)
        self._move(held, -1)
        try:
            result = await self._send(update, now)
        finally:
            self._move(held, +1)
        if not result.applied:
            self._refused_at = now
            self._refuse(charge, update, now)
            raise self._refusal(charge, next(iter(charge.units), None), wait=bucket.ROUNDING)

    def _update_for(self, charge: Charge, held: Mapping[Dimension, int], now: float) -> BucketUpdate:
        lines = {}
        for dimension, rate in self.limits.rates.items():
            local = self._local[dimension]
            need = charge.units.get(dimension, 0) - held.get(dimension, 0)
            want = max(need, local.waited_for + _ahead(rate, local, now) - max(0, local.left))
            lines[dimension] = UnitUpdate(rate, min(0, local.left), need, want)
        return BucketUpdate(self._holder, lines, self._slots_for(charge))

    def _slots_for(self, charge: Charge) -> SlotUpdate | None:
        limit = self.limits.concurrent
        if limit is None:
            return None
        need = self._running + charge.slot
        want = max(_in_sixteenths(limit, self._running + self._slots_waited_for), self._granted)
        return SlotUpdate(limit, self._running, need, want, SLOT_LEASE)

    async def _send(self, update: BucketUpdate, now: float) -> UpdateResult:
        """Send an update to the store; units that it gives back are not available locally meanwhile."""
        back = {dimension: units.returned for dimension, units in update.units.items()}
        self._move(back, -1)
        try:
            with self._circuit.guard():
                result = await self._store.update(self.subject.id, update)
        except StoreUnavailable:
            self._move(back, +1)
            raise
        for dimension, units in update.units.items():
            local = self._local[dimension]
            local.full_at = now + result.full_at[dimension] - result.now
            if result.applied and units.wanted:
                local.spent, local.taken_at = 0, now
        self._move(result.taken if result.applied else back, +1)
        self._others = result.other_slots
        if result.applied and update.slots is not None:
            self._granted, self._granted_until, self._renewed_at = result.slots, now + SLOT_LEASE, now
        return result

    def _move(self, units: Mapping[Dimension, int], sign: int) -> None:
        for dimension, number in units.items():
            self._local[dimension].left += sign * number

    def _refuse(self, charge: Charge, update: BucketUpdate, now: float) -> None:
        """Raise the refusal that follows from the store's last answer, if the update can't be applied."""
        slots = update.slots
        if slots is not None and charge.slot and slots.limit - self._others < slots.minimum:
            raise self._refusal(charge, None, wait=CONCURRENT_WAIT)
        waits = {
            dimension: bucket.wait(units.rate, self._local[dimension].full_at, now, units.minimum)
            for dimension, units in update.units.items()
            if units.minimum
        }
        longest = max(waits, key=lambda dimension: waits[dimension], default=None)
        if longest is not None and waits[longest] > 0:
            raise self._refusal(charge, longest, wait=waits[longest])

    def _refusal(self, charge: Charge, dimension: Dimension | None, *, wait: float) -> RateLimitExceeded:
        reached = f"Rate limit reached for {self.subject.display_name} on "
        if dimension is None:
            limit = self.limits.concurrent or 0
            used = min(limit, self._others + self._running)
            message = f"{reached}concurrent requests: Limit {limit}, Used {used}, Requested 1."
            return RateLimitExceeded(message, wait=wait, kind=self.subject.kind)
        status = self.statuses()[dimension]
        kind = TokenLimitExceeded if dimension.counts_tokens else RateLimitExceeded
        return kind(
            f"{reached}{_NAMES[dimension]}: Limit {status.limit}, Used {status.limit - status.remaining}, "
            f"Requested {charge.units[dimension]}. Please try again in {wait:.3f}s.",
            wait=wait,
            kind=self.subject.kind,
        )

    # --- giving back ------------------------------------------------------------------------------

    def _slots_need_care(self, now: float) -> bool:
        limit = self.limits.concurrent
        if limit is None or not (self._running or now < self._granted_until):
            return False
        excess = self._granted > _in_sixteenths(limit, self._running) + limit // SPARE_SHARE
        return excess or (self._running > 0 and now - self._renewed_at >= SLOT_RENEWAL_INTERVAL)

    def _slots_in_use(self, *, spare: bool) -> SlotUpdate | None:
        limit = self.limits.concurrent
        if limit is None:
            return None
        held = _in_sixteenths(limit, self._running) if spare else self._running
        self._granted = min(self._granted, held)  # not to be used while they are given back
        return SlotUpdate(limit, self._running, self._running, held, SLOT_LEASE)

    async def _give_back(self, dimensions: list[Dimension], slots: SlotUpdate | None, now: float) -> None:
        rates = self.limits.rates
        for dimension in dimensions:
            if dimension not in rates:
                self._local[dimension].left = 0
        lines = {d: UnitUpdate(rates[d], self._local[d].left) for d in dimensions if d in rates}
        if lines or slots is not None:
            await self._send(BucketUpdate(self._holder, lines, slots), now)


def _in_sixteenths(limit: int, slots: int) -> int:
    """Return the slots to hold when `slots` are needed: the next multiple of a sixteenth of the limit."""
    share = limit // SPARE_SHARE
    return -(-max(slots, 1) // share) * share if share else slots


def _ahead(rate: BucketRate, local: _LocalUnits, now: float) -> int:
    """Return the units expected in the next `ADVANCE_PERIOD` from the recent use, at most doubling it at a time."""
    since = now - local.taken_at
    expected = local.spent * ADVANCE_PERIOD / since if since > ADVANCE_PERIOD else 2 * local.spent
    return min(int(expected), rate.capacity // LARGEST_SHARE)


def _status(rate: BucketRate, local: _LocalUnits, now: float) -> LimitStatus:
    used = bucket.missing_seconds(rate, local.full_at, now) - local.left * rate.unit
    remaining = bucket.available(rate, local.full_at, now) + local.left
    return LimitStatus(rate.capacity, min(max(0, remaining), rate.capacity), max(0.0, used))
