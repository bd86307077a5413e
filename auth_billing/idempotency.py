"""Idempotency keys: decide whether a request runs, is answered with the stored answer, or is refused.

A key is valid for one tenant and endpoint, for a day. The process that inserts its record runs the request and renews a
lease on it; once the lease has expired, the next request with the key runs.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from auth_billing.errors import AnswerNotKept, KeyInUse, KeyReused
from router.timings import DEFAULT_TIMINGS

RETENTION_PERIOD = 24 * 3600.0
"""Seconds for which a key's answer is kept."""


@dataclass(frozen=True)
class KeptAnswer:
    """Stored HTTP response to a request with an idempotency key. `body` is `None` if it was too large to store."""

    status: int
    headers: dict[str, str]
    body: bytes | None = field(repr=False)


@dataclass(frozen=True)
class IdempotencyRecord:
    """A used idempotency key and the state of its request.

    The run `run_id` has the claim until `lease` (Unix seconds), which it renews; 0: the request is answered.
    """

    id: str
    fingerprint: str
    run_id: str
    lease: float
    expires: float
    answer: KeptAnswer | None = None


class IdempotencyStore(Protocol):
    """Store of idempotency keys and answers. An update applies only if the run that it names holds the record.

    Each method raises `StoreUnavailable` when the store does not answer in time.
    """

    async def insert(self, record: IdempotencyRecord) -> IdempotencyRecord | None:
        """Store a new record and return `None`; if one with its id is stored, change nothing and return that one."""
        ...

    async def replace(self, old: IdempotencyRecord, new: IdempotencyRecord) -> bool:
        """Replace `old` by `new`; false, and no change, if the stored run or lease is not that of `old`."""
        ...

    async def renew(self, record_id: str, run_id: str, lease: float) -> bool:
        """Extend a run's lease to the Unix time `lease`; return false if another run holds the record."""
        ...

    async def finish(self, record_id: str, run_id: str, answer: KeptAnswer) -> bool:
        """Store a run's answer in its record; return false if another run holds the record.

        Raises:
            RecordRefused: the answer is too large for the store.
        """
        ...

    async def release(self, record_id: str, run_id: str) -> None:
        """Delete the record of a run that ended without an answer; no effect if another run holds the record."""
        ...


@dataclass(frozen=True)
class KeyedRequest:
    """A request with an idempotency key. `fingerprint`: hash of its content, which a repetition must have too."""

    tenant: str
    endpoint: str
    key: str
    fingerprint: str

    @property
    def record_id(self) -> str:
        """Id of the request's record in the store: a hash of tenant, endpoint and idempotency key."""
        return hashlib.sha256("\0".join((self.tenant, self.endpoint, self.key)).encode()).hexdigest()


@dataclass(frozen=True)
class Claim:
    """The right of one run to process a request, until `IdempotencyKeys.finish` or `release`."""

    record_id: str
    run_id: str


class IdempotencyKeys:
    """Ensures that a request with an idempotency key runs once, and repeats its stored answer later.

    Args:
        store: keeps the idempotency keys and answers.
        clock: Unix seconds; the clocks of all gateways must agree within a few seconds.
        lease: seconds without renewal after which the process that ran the request is considered dead.
    """

    def __init__(
        self,
        store: IdempotencyStore,
        *,
        clock: Callable[[], float] = time.time,
        lease: float = DEFAULT_TIMINGS.idempotency_lease,
    ) -> None:
        self._store = store
        self._lease = lease
        self._clock = clock

    async def claim(self, request: KeyedRequest) -> Claim | KeptAnswer:
        """Claim the right to run `request`, or return the stored answer of its first run.

        Raises:
            KeyReused, KeyInUse, AnswerNotKept: the request may not run, and there is no answer to repeat.
            StoreUnavailable: neither a claim nor an answer is known.
        """
        now = self._clock()
        mine = IdempotencyRecord(
            id=request.record_id,
            fingerprint=request.fingerprint,
            run_id=uuid.uuid4().hex,
            lease=now + self._lease,
            expires=now + RETENTION_PERIOD,
        )
        there = await self._store.insert(mine)
        if there is None:
            return Claim(mine.id, mine.run_id)
        if now < there.expires:
            if there.fingerprint != request.fingerprint:
                raise KeyReused
            if there.answer is not None:
                if there.answer.body is None:
                    raise AnswerNotKept
                return there.answer
            if now < there.lease:
                raise KeyInUse
        if not await self._store.replace(there, mine):
            raise KeyInUse  # another process was faster
        return Claim(mine.id, mine.run_id)

    async def renew(self, claim: Claim) -> bool:
        """Extend the lease of a running request; return false if another process has taken it over.

        Raises:
            StoreUnavailable: the lease may not have been extended.
        """
        return await self._store.renew(claim.record_id, claim.run_id, self._clock() + self._lease)

    async def finish(self, claim: Claim, answer: KeptAnswer) -> bool:
        """Store the answer and end the claim; return false if another process has taken the request over.

        Raises:
            RecordRefused, StoreUnavailable: the answer was not stored.
        """
        return await self._store.finish(claim.record_id, claim.run_id, answer)

    async def release(self, claim: Claim) -> None:
        """Give the claim up without an answer: the next request with the key runs.

        Raises:
            StoreUnavailable: the next request can run once the lease has expired.
        """
        await self._store.release(claim.record_id, claim.run_id)
