"""Idempotency keys: whether a request runs, is repeated from its kept answer, or is refused.

A key belongs to a tenant and an endpoint for a day. Who inserts its record runs the request, and says from time to
time that it is alive; if it no longer does, the next request with the key runs again. Knows no HTTP but the parts of
an answer that are kept, and no MongoDB.
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
"""After this long without a word the process that ran the request is taken for dead."""


@dataclass(frozen=True)
class KeyedRequest:
    """A request with an idempotency key. `fingerprint`: of all that makes it the same request."""

    tenant: str
    endpoint: str
    key: str
    fingerprint: str

    @property
    def record_id(self) -> str:
        """The key within its scope."""
        return hashlib.sha256("\0".join((self.tenant, self.endpoint, self.key)).encode()).hexdigest()


@dataclass(frozen=True)
class Claim:
    """Leave to run a request, until `IdempotencyKeys.finish` or `release`."""

    record_id: str
    attempt: str


class IdempotencyKeys:
    """The facade for idempotency keys.

    Args:
        store: where they are kept.
        clock: Unix seconds; those of all gateways agree within a few.
    """

    def __init__(self, store: IdempotencyStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def claim(self, request: KeyedRequest) -> Claim | KeptAnswer:
        """Leave to run `request`, or the answer that it was given before.

        Raises:
            KeyReused, KeyInUse, AnswerNotKept: neither.
            StoreUnavailable: not known.
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
            raise KeyInUse  # somebody else was quicker
        return Claim(mine.id, mine.attempt)

    async def renew(self, claim: Claim) -> bool:
        """Say that the request is still running; false if somebody else runs it by now.

        Raises:
            StoreUnavailable: nobody heard it.
        """
        return await self._store.renew(claim.record_id, claim.attempt, self._clock() + LEASE_SECONDS)

    async def finish(self, claim: Claim, answer: KeptAnswer) -> bool:
        """Keep the answer; false if somebody else has run the request meanwhile.

        Raises:
            RecordRefused, StoreUnavailable: it is not kept.
        """
        return await self._store.finish(claim.record_id, claim.attempt, answer)

    async def release(self, claim: Claim) -> None:
        """Nothing has happened: the next request with the key runs.

        Raises:
            StoreUnavailable: it runs when the lease has run out.
        """
        await self._store.release(claim.record_id, claim.attempt)
