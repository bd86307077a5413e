"""Idempotency keys in MongoDB: `idempotency {_id, fingerprint, attempt, lease, expires, answer}`.

Insertion under the unique `_id` decides who runs a request; the store itself forgets records that have expired.
Bodies are compressed: an event stream repeats itself in every frame.
"""

from __future__ import annotations

import asyncio
import zlib
from datetime import UTC, datetime
from typing import Any

from pymongo.errors import DuplicateKeyError

from auth_billing.errors import StoreUnavailable
from auth_billing.idempotency import IdempotencyRecord, KeptAnswer
from auth_billing.store.connection import StoreConnection, translated_errors

COLLECTION = "idempotency"
TRIES = 3


class MongoIdempotencyStore:
    """Implements `records.IdempotencyStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._keys = connection.durable(COLLECTION)

    async def insert(self, record: IdempotencyRecord) -> IdempotencyRecord | None:
        """Store a record unless one with its id is there, which is returned then."""
        for _ in range(TRIES):
            with translated_errors():
                try:
                    await self._keys.insert_one(_to_document(record))
                except DuplicateKeyError:
                    there = await self._keys.find_one({"_id": record.id})
                else:
                    return None
            if there is not None:  # else it has gone in between
                return await _from_document(there)
        raise StoreUnavailable("a record comes and goes")

    async def replace(self, old: IdempotencyRecord, new: IdempotencyRecord) -> bool:
        """Put `new` in the place of `old` if that still has the attempt and the lease that it had."""
        with translated_errors():
            result = await self._keys.replace_one(
                {"_id": old.id, "attempt": old.attempt, "lease": old.lease}, _to_document(new)
            )
        return bool(result.matched_count)

    async def renew(self, record_id: str, attempt: str, lease: float) -> bool:
        """Say that the attempt is alive; false if it is not its record any more."""
        return await self._update(record_id, attempt, {"lease": lease})

    async def finish(self, record_id: str, attempt: str, answer: KeptAnswer) -> bool:
        """Keep the answer; false if it is not its record any more."""
        body = None if answer.body is None else await asyncio.to_thread(zlib.compress, answer.body, 1)
        kept = {"status": answer.status, "headers": answer.headers, "body": body}
        return await self._update(record_id, attempt, {"lease": 0.0, "answer": kept})

    async def release(self, record_id: str, attempt: str) -> None:
        """Forget an attempt that came to nothing."""
        with translated_errors():
            await self._keys.delete_one({"_id": record_id, "attempt": attempt, "answer": None})

    async def _update(self, record_id: str, attempt: str, fields: dict[str, Any]) -> bool:
        with translated_errors():
            result = await self._keys.update_one({"_id": record_id, "attempt": attempt}, {"$set": fields})
        return bool(result.matched_count)


def _to_document(record: IdempotencyRecord) -> dict[str, Any]:
    return {
        "_id": record.id,
        "fingerprint": record.fingerprint,
        "attempt": record.attempt,
        "lease": record.lease,
        "expires": datetime.fromtimestamp(record.expires, UTC),  # the type that makes the store forget it
        "answer": None,
    }


async def _from_document(document: dict[str, Any]) -> IdempotencyRecord:
    kept = document["answer"]
    return IdempotencyRecord(
        id=document["_id"],
        fingerprint=document["fingerprint"],
        attempt=document["attempt"],
        lease=document["lease"],
        expires=document["expires"].replace(tzinfo=UTC).timestamp(),
        answer=None if kept is None else await _read(kept),
    )


async def _read(kept: dict[str, Any]) -> KeptAnswer:
    body = kept["body"]
    plain = None if body is None else await asyncio.to_thread(zlib.decompress, bytes(body))
    return KeptAnswer(kept["status"], dict(kept["headers"]), plain)
