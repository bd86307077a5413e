"""MongoDB store of rate limits' token buckets and of slots for concurrent requests, shared by all gateways.

    rate_buckets {_id: subject, version, full_at: {dimension: s}, holders: {...}, expires}

Compare-and-swap: `rate_limits/bucket_update.py` computes the new state from the document as last seen, by the server's
clock, so that gateways need not agree on the time. It is written if the version is still the same, else the document
is read and the state computed again. (An update pipeline with the arithmetic would never be retried, but the embedded
store scans the whole collection for `find_one_and_update` and for any update with `$expr`.) A crash of the store may
lose a state, so writes do not wait for the journal. A TTL index deletes a bucket two days after its last use.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tenacity import wait_random_exponential

from auth_billing.errors import StoreUnavailable
from auth_billing.rate_limits.bucket_update import SlotHolding, SubjectState, apply_update
from auth_billing.rate_limits.limits import Dimension
from auth_billing.rate_limits.ports import BucketUpdate, UpdateResult
from auth_billing.store.connection import StoreConnection
from auth_billing.store.server_clock import ServerClock
from runtime.retry import Backoff

COLLECTION = "rate_buckets"
RETENTION = timedelta(days=2)
CACHE_SIZE = 10_000
"""Most documents that are remembered as last seen."""
MAX_TRIES = 50
CONTENTION_WAIT = wait_random_exponential(multiplier=0.002, max=0.02)
"""Pauses between two tries, when several gateways write the same document."""


class MongoBucketStore:
    """MongoDB implementation of `rate_limits.ports.BucketStore`. Writes are not journaled."""

    def __init__(self, connection: StoreConnection) -> None:
        self._buckets = connection.unjournaled(COLLECTION)
        self._clock = ServerClock(connection)
        self._seen: dict[str, dict[str, Any]] = {}

    async def update(self, subject: str, update: BucketUpdate) -> UpdateResult:
        """Apply one update to a subject's rate-limit buckets and slots, by subject id, atomically; return the result.

        An update that can't be applied writes nothing; the result says so.

        Raises:
            StoreUnavailable: the store does not answer, or too many processes write the same bucket.
        """
        seen = self._seen.pop(subject, None)
        backoff = Backoff(CONTENTION_WAIT)
        for _ in range(MAX_TRIES):
            document = seen if seen is not None else await self._read(subject)
            state, result = apply_update(_state(document), update, await self._clock.now())
            if state is None and seen is None:
                return result
            if state is not None and await self._write(subject, document, state, result.now):
                return result
            if seen is None:
                await backoff.sleep()
            seen = None
        raise StoreUnavailable("too many processes write the same bucket")

    async def _read(self, subject: str) -> dict[str, Any]:
        """Return a subject's document, empty if there is none."""
        return await self._buckets.find_one({"_id": subject}) or {}

    async def _write(self, subject: str, document: Mapping[str, Any], state: SubjectState, now: float) -> bool:
        """Replace `document` by `state`; false if another process replaced it first."""
        version = document.get("version", 0)
        replacement = {
            "_id": subject,
            "version": version + 1,
            "full_at": {str(dimension): at for dimension, at in state.full_at.items()},
            "holders": {name: {"n": held.slots, "until": held.until} for name, held in state.holders.items()},
            "expires": datetime.fromtimestamp(now, UTC) + RETENTION,
        }
        if version:
            query = {"_id": subject, "version": version}
            if not (await self._buckets.replace_one(query, replacement)).matched_count:
                return False
        elif not await self._buckets.insert_if_absent(replacement):
            return False
        if len(self._seen) >= CACHE_SIZE:
            self._seen.pop(next(iter(self._seen)))
        self._seen[subject] = replacement
        return True


def _state(document: Mapping[str, Any]) -> SubjectState:
    return SubjectState(
        {Dimension(name): float(at) for name, at in document.get("full_at", {}).items()},
        {name: SlotHolding(int(held["n"]), float(held["until"])) for name, held in document.get("holders", {}).items()},
    )
