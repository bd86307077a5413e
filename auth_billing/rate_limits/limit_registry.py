"""Resolves the limits of a subject: the operator's, which administrators of the organisation can lower; cached.

A change takes effect here at once, and in other gateways within `CACHE_TTL`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from auth_billing.errors import StoreUnavailable
from auth_billing.rate_limits.limits import Limits, Subject, SubjectKind
from auth_billing.rate_limits.ports import LimitStore
from auth_billing.rate_limits.store_circuit import StoreCircuit

CACHE_TTL = 10.0
"""Seconds that a subject's limits stay cached."""
CAPACITY = 10_000

_NONE = Limits()


class LimitRegistry:
    """Resolves the limits of subjects; cached. The operator's limits of one subject replace the defaults of its kind;
    those that administrators have set apply where they are lower.

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
        """Return the limits of each subject. While the store is away, cached limits stay in force.

        Raises:
            StoreUnavailable: some limits are not cached and the store does not answer.
        """
        now = self._circuit.now()
        old = [s for s in subjects if now >= self._known.get(s.id, (-1e9, _NONE))[0] + CACHE_TTL]
        if old:
            await asyncio.shield(self._reading_of(old, now))
        return [self._known[subject.id][1] for subject in subjects]

    async def change(self, subject: Subject, changes: Limits) -> Limits:
        """Change the limits that administrators have set for a subject, durably; return the limits then in force.

        Raises:
            StoreUnavailable: the changes may or may not have been stored.
        """
        with self._circuit.guard():
            said = await self._store.change(subject.id, changes)
            operators = await self._store.find([subject.operator_id])
        return self._remember(subject, self._circuit.now(), {subject.id: said} | operators)

    def _reading_of(self, subjects: Sequence[Subject], now: float) -> asyncio.Task[None]:
        """Start a read of the store, or join the running one for the same subjects."""
        names = tuple(subject.id for subject in subjects)
        reading = self._reading.get(names)
        if reading is None:
            reading = self._reading[names] = asyncio.create_task(self._read(subjects, now))
            reading.add_done_callback(lambda _: self._reading.pop(names, None))
        return reading

    async def _read(self, subjects: Sequence[Subject], now: float) -> None:
        try:
            with self._circuit.guard():
                found = await self._store.find([id_ for each in subjects for id_ in (each.id, each.operator_id)])
        except StoreUnavailable:
            if not all(subject.id in self._known for subject in subjects):
                raise
            return
        for subject in subjects:
            self._remember(subject, now, found)

    def _remember(self, subject: Subject, now: float, found: Mapping[str, Limits]) -> Limits:
        self._known.pop(subject.id, None)
        if len(self._known) >= CAPACITY:
            self._known.pop(next(iter(self._known)))
        most = self._defaults.get(subject.kind, _NONE).overridden_by(found.get(subject.operator_id, _NONE))
        limits = most.lowered_by(found.get(subject.id, _NONE))
        self._known[subject.id] = (now, limits)
        return limits
