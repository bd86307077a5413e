"""Looks up, with a cache, and changes subjects' rate limits: the operator's, which administrators can only lower.

The administrators are those of the subject's organisation. A change takes effect here at once, and in other gateways
within `CACHE_TTL`; units that these have leased are returned within another second (`lease.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auth_billing.early_reads import is_due
from auth_billing.errors import StoreUnavailable
from auth_billing.rate_limits.limits import Limits, Subject, SubjectKind, key_subject
from auth_billing.rate_limits.ports import LimitStore
from auth_billing.rate_limits.store_circuit import StoreCircuit

CACHE_TTL = 3.0
"""Seconds that a subject's limits stay cached."""
CAPACITY = 20_000

_NONE = Limits()
_UNREAD = (-1e9, _NONE)
"""Time of the read, and the limits, of a subject that is not cached."""


@dataclass(frozen=True)
class LimitSetting:
    """Limits that an organisation's administrators have set for a subject, and the operator's, which are ceilings."""

    own: Limits
    ceiling: Limits

    @property
    def in_force(self) -> Limits:
        """The limits in force: the operator's, lowered where the administrators' limit is lower."""
        return self.ceiling.lowered_by(self.own)


async def inherit_limits(store: LimitStore, key_id: str, successor: str) -> None:
    """Copy administrators' and operator's stored rate limits of the API key `key_id` to its replacement `successor`.

    Raises:
        StoreUnavailable: some limits may be missing.
    """
    old, new = key_subject(key_id, ""), key_subject(successor, "")
    found = await store.find([old.id, old.operator_id])
    for source, target in ((old.id, new.id), (old.operator_id, new.operator_id)):
        if source in found:
            await store.change(target, found[source])


class LimitRegistry:
    """Resolves and caches the rate limits of subjects.

    The operator's limits of one subject replace the defaults of its kind; those that administrators have set apply
    where they are lower.

    Args:
        store: the limits set per subject.
        defaults: the operator's defaults by kind of subject.
        circuit: circuit breaker of the store; its clock is used here too.
    """

    def __init__(self, store: LimitStore, defaults: Mapping[SubjectKind, Limits], circuit: StoreCircuit) -> None:
        self._store = store
        self._defaults = defaults
        self._circuit = circuit
        self._known: dict[str, tuple[float, Limits]] = {}
        """Time of the read, and the limits, by subject."""
        self._reading: dict[tuple[str, ...], asyncio.Task[None]] = {}

    async def limits_of(self, subjects: Sequence[Subject]) -> list[Limits]:
        """Return the rate limits in force of each subject, in order, from the cache or the store.

        While the store is away, cached limits stay in force.

        Raises:
            StoreUnavailable: some limits are not cached and the store does not answer.
        """
        now = self._circuit.now()
        read_at = {subject.id: self._known.get(subject.id, _UNREAD)[0] for subject in subjects}
        if old := [subject for subject in subjects if now >= read_at[subject.id] + CACHE_TTL]:
            await asyncio.shield(self._reading_of(old, now))
        elif due := [each for each in subjects if is_due(read_at[each.id] + CACHE_TTL - now, CACHE_TTL)]:
            self._reading_of(due, now)  # in the background, so that no request waits for it
        return [self._known[subject.id][1] for subject in subjects]

    async def change(self, subject: Subject, changes: Limits) -> Limits:
        """Store durably the rate limits that administrators set for a subject; return the limits then in force.

        Limits that are `None` in `changes` stay as they are.

        Raises:
            StoreUnavailable: the changes may or may not have been stored.
        """
        with self._circuit.guard():
            said = await self._store.change(subject.id, changes)
            operators = await self._store.find([subject.operator_id])
        return self._remember(subject, self._circuit.now(), {subject.id: said} | operators)

    async def settings_of(self, subjects: Sequence[Subject]) -> list[LimitSetting]:
        """Return, in order, the rate limits that administrators and operator set for each subject, past the cache.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        with self._circuit.guard():
            found = await self._find(subjects)
        return [self._setting(subject, found) for subject in subjects]

    def _reading_of(self, subjects: Sequence[Subject], now: float) -> asyncio.Task[None]:
        """Start a read of the store, or join the running one for the same subjects."""
        names = tuple(subject.id for subject in subjects)
        reading = self._reading.get(names)
        if reading is None:
            reading = self._reading[names] = asyncio.create_task(self._read(subjects, now))
            reading.add_done_callback(lambda _: self._reading.pop(names, None))
            # Take the error here too: no request awaits a read ahead of time.
            reading.add_done_callback(lambda done: done.cancelled() or done.exception())
        return reading

    async def _read(self, subjects: Sequence[Subject], now: float) -> None:
        try:
            with self._circuit.guard():
                found = await self._find(subjects)
        except StoreUnavailable:
            if not all(subject.id in self._known for subject in subjects):
                raise
            return
        for subject in subjects:
            self._remember(subject, now, found)

    def _remember(self, subject: Subject, now: float, found: Mapping[str, Limits]) -> Limits:
        """Cache what a read that began at `now` has `found`, unless a later one is cached; return the limits cached."""
        known = self._known.pop(subject.id, None)
        if len(self._known) >= CAPACITY:
            self._known.pop(next(iter(self._known)))
        if known is None or known[0] <= now:
            known = (now, self._setting(subject, found).in_force)
        self._known[subject.id] = known
        return known[1]

    async def _find(self, subjects: Sequence[Subject]) -> dict[str, Limits]:
        return await self._store.find([id_ for each in subjects for id_ in (each.id, each.operator_id)])

    def _setting(self, subject: Subject, found: Mapping[str, Limits]) -> LimitSetting:
        ceiling = self._defaults.get(subject.kind, _NONE).overridden_by(found.get(subject.operator_id, _NONE))
        return LimitSetting(found.get(subject.id, _NONE), ceiling)
