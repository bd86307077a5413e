"""Idempotency keys: decide whether a request runs, is answered with the stored answer, or is refused.

A key is valid for one tenant and endpoint, for a day. The process that inserts its record runs the request and renews a
lease on it; once the lease has expired, the next request with the key runs.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from auth_billing.errors import AnswerNotKept, KeyInUse, KeyReused
from auth_billing.records import IdempotencyRecord, IdempotencyStore, KeptAnswer

KEPT_SECONDS = 24 * 3600.0
LEASE_SECONDS = 30.0
"""Seconds without renewal after which the process that ran the request is considered dead."""


@dataclass(frozen=True)
class KeyedRequest:
    """A request with an idempotency key. `fingerprint`: hash of everything that identifies the request."""

    tenant: str
    endpoint: str
    key: str
    fingerprint: str

    @property
    def record_id(self) -> str:
        """Hash of the key with its tenant and endpoint."""
        return hashlib.sha256("\0".join((self.tenant, self.endpoint, self.key)).encode()).hexdigest()


@dataclass(frozen=True)
class Claim:
    """The right to run a request, until `IdempotencyKeys.finish` or `release`."""

    record_id: str
    attempt: str


class IdempotencyKeys:
    """Facade of idempotency keys.

    Args:
        store: keeps the idempotency keys and answers.
        clock: Unix seconds; the clocks of all gateways must agree within a few seconds.
    """

    def __init__(self, store: IdempotencyStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def claim(self, request: KeyedRequest) -> Claim | KeptAnswer:
        """Claim the right to run `request`, or return the stored answer of its first run.

        Raises:
            KeyReused, KeyInUse, AnswerNotKept: the request may not run, and there is no answer to repeat.
            StoreUnavailable: nothing is known.
        """
        now = self._clock()
        mine = IdempotencyRecord(
            id=request.record_id,
            fingerprint=request.fingerprint,
            attempt=uuid.uuid4().hex,
            lease=now + LEASE_SECONDS,
            expires=now + KEPT_SECONDS,
        )
        there = await self._store.insert(mine)
        if there is None:
            return Claim(mine.id, mine.attempt)
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
        return Claim(mine.id, mine.attempt)

    async def renew(self, claim: Claim) -> bool:
        """Extend the lease of a running request; return false if another process has taken it over.

        Raises:
            StoreUnavailable: the lease may not have been extended.
        """
        return await self._store.renew(claim.record_id, claim.attempt, self._clock() + LEASE_SECONDS)

    async def finish(self, claim: Claim, answer: KeptAnswer) -> bool:
        """Store the answer; return false if another process has taken the request over.

        Raises:
            RecordRefused, StoreUnavailable: the answer was not stored.
        """
        return await self._store.finish(claim.record_id, claim.attempt, answer)

    async def release(self, claim: Claim) -> None:
        """Give the claim up without an answer: the next request with the key runs.

        Raises:
            StoreUnavailable: the next request can run once the lease has expired.
        """
        await self._store.release(claim.record_id, claim.attempt)
