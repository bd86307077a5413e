"""Buckets and slots in MongoDB: `rate_buckets {_id: subject, version, full_at: {dimension: s}, holders: {...}}`.

An order is carried out by `rate_limits/exchange.py` on the document that was seen last, by the server's clock, so that
gateways need not agree on the time; it is written if nobody has written another version meanwhile, else read and done
again. (One update whose pipeline does the arithmetic would never be in vain, but the embedded store looks at every
document of a collection for `find_one_and_update`, and for any update with `$expr`.) What is written may be
forgotten in a crash of the store, so it does not wait for the journal; what nobody asked for in two days is dropped.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo.errors import DuplicateKeyError

from auth_billing.errors import StoreUnavailable
from auth_billing.rate_limits.bucket_update import Held, State, carry_out
from auth_billing.rate_limits.limits import Dimension
from auth_billing.rate_limits.ports import Order, Position
from auth_billing.store.connection import StoreConnection, translated_errors
from auth_billing.store.server_clock import ServerClock

COLLECTION = "rate_buckets"
KEPT = timedelta(days=2)
CAPACITY = 10_000
"""Documents that are remembered."""
TRIES = 50
LONGEST_PAUSE = 0.02
"""Seconds between two tries, where several gateways want the same document."""


class MongoBucketStore:
    """Implements `rate_limits.ports.BucketStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._buckets = connection.passing(COLLECTION)
        self._clock = ServerClock(connection)
        self._seen: dict[str, dict[str, Any]] = {}

    async def exchange(self, subject: str, order: Order) -> Position:
        """Carry out an order. One that can't be fulfilled changes, and writes, nothing."""
        seen = self._seen.pop(subject, None)
        for tries in range(TRIES):
            document = seen if seen is not None else await self._read(subject)
            state, position = carry_out(_state(document), order, await self._clock.now())
            if state is None and seen is None:
                return position
            if state is not None and await self._write(subject, document, state, position.now):
                return position
            if seen is None:
                await asyncio.sleep(random.uniform(0, LONGEST_PAUSE * min(1.0, tries / 5)))  # noqa: S311 - no secret
            seen = None
        raise StoreUnavailable("too many want the same bucket")

    async def _read(self, subject: str) -> dict[str, Any]:
        """The document; empty if there is none."""
        with translated_errors():
            return await self._buckets.find_one({"_id": subject}) or {}

    async def _write(self, subject: str, document: Mapping[str, Any], state: State, now: float) -> bool:
        """Put `state` in the place of `document`; false if somebody else was quicker."""
        version = document.get("version", 0)
        replacement = {
            "_id": subject,
            "version": version + 1,
            "full_at": {str(dimension): at for dimension, at in state.full_at.items()},
            "holders": {name: {"n": held.slots, "until": held.until} for name, held in state.holders.items()},
            "expires": datetime.fromtimestamp(now, UTC) + KEPT,
        }
        with translated_errors():
            if version:
                query = {"_id": subject, "version": version}
                if not (await self._buckets.replace_one(query, replacement)).matched_count:
                    return False
            else:
                try:
                    await self._buckets.insert_one(replacement)
                except DuplicateKeyError:
                    return False
        if len(self._seen) >= CAPACITY:
            self._seen.pop(next(iter(self._seen)))
        self._seen[subject] = replacement
        return True


def _state(document: Mapping[str, Any]) -> State:
    return State(
        {Dimension(name): float(at) for name, at in document.get("full_at", {}).items()},
        {name: Held(int(held["n"]), float(held["until"])) for name, held in document.get("holders", {}).items()},
    )
