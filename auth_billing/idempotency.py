"""Idempotency keys: decide whether a request runs, follows a running one, gets the stored answer, or is refused.

A key is valid for one project and endpoint, for a day. The process that inserts its record runs the request and renews
a lease on it; once the lease has expired, the next request with the key runs. A run is billed only if it still has the
record when its answer is stored: runs that another one has taken over cost nothing.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from auth_billing.errors import AnswerNotKept, KeyInUse, KeyReused
from router.messages import Receipt
from router.timings import DEFAULT_TIMINGS

RETENTION_PERIOD = 24 * 3600.0
"""Seconds for which a key's answer is kept."""
MAX_CLAIMS = 3
"""Most tries to take over a record that other processes take over at the same time."""


@dataclass(frozen=True)
class KeptAnswer:
    """Stored HTTP response to a request with an idempotency key. `body` is `None` if it was too large to store."""

    status: int
    headers: dict[str, str]
    body: bytes | None = field(repr=False)
    receipts: Sequence[Receipt] = field(default=(), compare=False)
    """The receipts of the run's jobs, which settle them even if its gateway dies before publishing; not read back."""


@dataclass(frozen=True)
class IdempotencyRecord:
    """A used idempotency key and the state of its request.

    The run `run_id` of the process `gateway` has the claim until `lease` (Unix seconds), which it renews; 0: the
    request is answered.
    """

    id: str
    fingerprint: str
    run_id: str
    lease: float
    expires: float
    gateway: str = ""
    answer: KeptAnswer | None = None


class IdempotencyStore(Protocol):
    """Store of idempotency keys and answers. An update applies only if the run that it names holds the record.

    Each method raises `StoreUnavailable` when the store does not answer in time.
    """

    async def insert(self, record: IdempotencyRecord) -> IdempotencyRecord | None:
        """Store a new idempotency record and return `None`; if one with its id is stored, only return that one."""
        ...

    async def find(self, record_id: str) -> IdempotencyRecord | None:
        """Return the stored record of an idempotency key by the record's id, `None` if there is none."""
        ...

    async def replace(self, old: IdempotencyRecord, new: IdempotencyRecord) -> bool:
        """Replace the stored idempotency record `old` by `new`, so that another run has the claim.

        Return whether it was replaced: false, and no change, if the stored run or lease is not that of `old`.
        """
        ...

    async def renew(self, record_id: str, run_id: str, lease: float) -> bool:
        """Extend a run's lease of an idempotency record to Unix time `lease`; return false if another run holds it."""
        ...

    async def finish(self, record_id: str, run_id: str, answer: KeptAnswer) -> bool:
        """Store the HTTP answer of a run in its idempotency record; return false if another run holds the record.

        Raises:
            RecordRefused: the answer is too large for the store.
        """
        ...

    async def release(self, record_id: str, run_id: str) -> bool:
        """Delete the idempotency record of a run without an answer; return false if the run does not hold it."""
        ...

    async def drop_answers(self, record_ids: Sequence[str]) -> None:
        """Erase the bodies of the HTTP answers of idempotency records, as if they had been too large to store."""
        ...


@dataclass(frozen=True)
class KeyedRequest:
    """A request with an idempotency key. `fingerprint`: hash of its content, which a repetition must have too."""

    tenant: str
    project: str
    """Id of the caller's project, "" without one: an answer may show what only this project may know of."""
    endpoint: str
    """Path of the request, with the ids in it."""
    key: str
    fingerprint: str

    @property
    def record_id(self) -> str:
        """Id of the request's idempotency record in the store: a hash of project, endpoint and idempotency key."""
        names = (self.tenant, self.project, self.endpoint, self.key)
        return hashlib.sha256("\0".join(names).encode()).hexdigest()

    def derived_id(self, number: int) -> str:
        """Return 32 hexadecimal digits for `number`: a hash in which only repetitions of this request are equal."""
        return hashlib.sha256(f"{self.record_id}\0{self.fingerprint}\0{number}".encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Claim:
    """The right of one run to process a request, until `IdempotencyKeys.finish` or `release`."""

    record_id: str
    run_id: str


@dataclass(frozen=True)
class RemoteRun:
    """A run that another process has claimed: `gateway` is that process's `IdempotencyKeys.gateway`."""

    record_id: str
    run_id: str
    gateway: str


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
        self.gateway = uuid.uuid4().hex
        """Id of this process in the records of its runs; other gateways address their messages about a run to it."""
        self._store = store
        self._lease = lease
        self._clock = clock

    async def claim(self, request: KeyedRequest) -> Claim | KeptAnswer | RemoteRun:
        """Claim the right to run a request with an idempotency key, before its route runs.

        Return a `Claim` if this process may run the request, the stored answer if it ran before, or the `RemoteRun` of
        another process that has the claim.

        Raises:
            KeyReused, KeyInUse, AnswerNotKept: the request may not run, and there is no answer to repeat.
            StoreUnavailable: neither a claim nor an answer is known.
        """
        for _ in range(MAX_CLAIMS):
            now = self._clock()
            mine = IdempotencyRecord(
                id=request.record_id,
                fingerprint=request.fingerprint,
                run_id=uuid.uuid4().hex,
                lease=now + self._lease,
                expires=now + RETENTION_PERIOD,
                gateway=self.gateway,
            )
            there = await self._store.insert(mine)
            if there is None:
                return Claim(mine.id, mine.run_id)
            if now < there.expires:
                if there.fingerprint != request.fingerprint:
                    raise KeyReused
                if (found := self._state(there, now)) is not None:
                    return found
            if await self._store.replace(there, mine):
                return Claim(mine.id, mine.run_id)
        raise KeyInUse  # other processes were faster

    async def state_of(self, run: RemoteRun) -> KeptAnswer | RemoteRun | None:
        """Read how far another process is with the request `run`.

        Return `run` while that process has its claim, the answer once that is stored, `None` after the process has lost
        the claim.

        Raises:
            AnswerNotKept: the answer was too large to store.
            StoreUnavailable: the state is unknown.
        """
        there = await self._store.find(run.record_id)
        if there is None or there.run_id != run.run_id:
            return None
        return self._state(there, self._clock())

    def _state(self, record: IdempotencyRecord, now: float) -> KeptAnswer | RemoteRun | None:
        if record.answer is None:
            return RemoteRun(record.id, record.run_id, record.gateway) if now < record.lease else None
        if record.answer.body is None:
            raise AnswerNotKept
        return record.answer

    async def renew(self, claim: Claim) -> bool:
        """Extend the lease of a claim while its request runs; return false if another process has taken it over.

        Raises:
            StoreUnavailable: the lease may not have been extended.
        """
        return await self._store.renew(claim.record_id, claim.run_id, self._clock() + self._lease)

    async def finish(self, claim: Claim, answer: KeptAnswer) -> bool:
        """Store the answer of a claimed request, for repetitions, and end the claim.

        Return false if another process has taken the request over.

        Raises:
            RecordRefused, StoreUnavailable: the answer was not stored.
        """
        return await self._store.finish(claim.record_id, claim.run_id, answer)

    async def release(self, claim: Claim) -> bool:
        """End a claim whose request got no answer, so that the next request with the idempotency key runs.

        Return false if another process has taken the request over.

        Raises:
            StoreUnavailable: the next request can run once the lease has expired.
        """
        return await self._store.release(claim.record_id, claim.run_id)

    async def drop_answers(self, requests: Sequence[KeyedRequest]) -> None:
        """Erase the bodies of the stored answers of requests; a repetition raises `AnswerNotKept`.

        Raises:
            StoreUnavailable: the answers may be stored still.
        """
        await self._store.drop_answers([each.record_id for each in requests])
