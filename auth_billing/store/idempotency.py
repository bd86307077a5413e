"""MongoDB store of the idempotency keys of API requests, with the state and the stored answer of each request.

    idempotency {
        _id: record,
        fingerprint, attempt, gateway: str,
        lease: float,                              Unix seconds; 0 once there is an answer
        expires: date,
        answer: {
            status, headers, body,
            usage: {job: {<usage>, outcome, parts: [<part>] | absent, reported: {<reported>} | absent}}
        } | null
    }

`usage_documents.py` describes usage, parts and `reported`. The process that inserts the unique `_id` runs the request.
A TTL index deletes expired records. Response bodies are compressed, because the frames of an event stream repeat their
fields. Records and short answers of requests at the same time are written together, by one journaled write.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pymongo import UpdateOne

from auth_billing.errors import RecordRefused, StoreUnavailable
from auth_billing.idempotency import IdempotencyRecord, KeptAnswer
from auth_billing.money.billing_records import SettlementSource, UsageStatement
from auth_billing.store.connection import StoreConnection
from auth_billing.store.usage_documents import (
    parts_from_documents,
    reported_from_document,
    stated,
    usage_from_document,
)
from router.messages import Outcome
from runtime.grouped_calls import GroupedCalls

COLLECTION = "idempotency"
RESPONSES = "responses"
"""Collection of the responses whose jobs are billed as those of an idempotency key (`stored_objects/`)."""
MAX_TRIES = 3
GROUPED_BYTES = 64 * 2**10
"""Longest compressed body of an answer that is written together with others."""


@dataclass(frozen=True)
class _RunAnswer:
    record_id: str
    run_id: str
    fields: Mapping[str, Any]
    """The fields of the record that the answer changes."""


class MongoIdempotencyStore:
    """MongoDB implementation of `IdempotencyStore` and `AnsweredJobs`.

    Writes are journaled; methods raise `StoreUnavailable`.
    """

    def __init__(self, connection: StoreConnection) -> None:
        self._keys = connection.durable(COLLECTION)
        self._responses = connection.durable(RESPONSES)
        self._insertions = GroupedCalls(self._keys.insert_new, 0.0)
        self._answers = GroupedCalls(self._finish_all, 0.0)

    async def insert(self, record: IdempotencyRecord) -> IdempotencyRecord | None:
        """Store a new idempotency record and return `None`; if its id is stored, change nothing and return that one."""
        for _ in range(MAX_TRIES):
            if await self._insertions.call(_to_document(record)):
                return None
            stored = await self._keys.find_one({"_id": record.id})
            if stored is not None:  # else it expired in between
                return await _from_document(stored)
        raise StoreUnavailable("the record keeps being deleted and inserted")

    async def find(self, record_id: str) -> IdempotencyRecord | None:
        """Return the stored record of an idempotency key by the record's id, `None` if there is none."""
        stored = await self._keys.find_one({"_id": record_id})
        return None if stored is None else await _from_document(stored)

    async def statements(self, records: Collection[str]) -> Mapping[str, UsageStatement]:
        """Return the usage and outcome that the receipts of jobs state, by job id.

        The receipts are stored with the answers of these idempotency records or background responses (`records`: their
        ids).
        """
        query = {"_id": {"$in": list(records)}, "answer.usage": {"$exists": True}}
        answered = (self._keys, self._responses)
        found = [each["answer"]["usage"] for kind in answered async for each in kind.find(query, {"answer.usage": 1})]
        return {job: _statement(stated) for usage in found for job, stated in usage.items()}

    async def replace(self, old: IdempotencyRecord, new: IdempotencyRecord) -> bool:
        """Replace the idempotency record `old` by `new`, in one update.

        Return false, and change nothing, if the stored run or lease is not that of `old`.
        """
        result = await self._keys.replace_one(
            {"_id": old.id, "attempt": old.run_id, "lease": old.lease}, _to_document(new)
        )
        return bool(result.matched_count)

    async def renew(self, record_id: str, run_id: str, lease: float) -> bool:
        """Extend a run's lease on an idempotency record to Unix time `lease`; return false if another run holds it."""
        return await self._update(record_id, run_id, {"lease": lease})

    async def finish(self, record_id: str, run_id: str, answer: KeptAnswer) -> bool:
        """Store a run's HTTP answer in its idempotency record; return false if another run holds the record.

        Raises:
            RecordRefused: the store can't hold the answer: it is too large.
        """
        body = None if answer.body is None else await asyncio.to_thread(zlib.compress, answer.body, 1)
        usage = {each.job: stated(each) for each in answer.receipts}
        kept = {"status": answer.status, "headers": answer.headers, "body": body, "usage": usage}
        fields = {"lease": 0.0, "answer": kept}
        if body is not None and len(body) > GROUPED_BYTES:
            return await self._update(record_id, run_id, fields)
        held = await self._answers.call(_RunAnswer(record_id, run_id, fields))
        if held is None:
            raise RecordRefused("the store can't hold the answer")
        return held

    async def release(self, record_id: str, run_id: str) -> bool:
        """Delete a run's idempotency record, which has no answer; return false if the run does not hold the record."""
        deleted = await self._keys.delete_one({"_id": record_id, "attempt": run_id, "answer": None})
        return bool(deleted.deleted_count)

    async def drop_answers(self, record_ids: Sequence[str]) -> None:
        """Erase the bodies of the answers of idempotency records in MongoDB; their usage stays."""
        query = {"_id": {"$in": list(record_ids)}, "answer": {"$ne": None}}
        await self._keys.update_many(query, {"$set": {"answer.body": None}})

    async def _finish_all(self, answers: Sequence[_RunAnswer]) -> list[bool | None]:
        """Store answers in their records; return for each whether its run holds the record, `None`: it was refused."""
        changes = [UpdateOne(_held_by(each.record_id, each.run_id), {"$set": each.fields}) for each in answers]
        try:
            matched = (await self._keys.bulk_write(changes, ordered=False)).matched_count
        except RecordRefused:
            if len(answers) == 1:
                return [None]
            return [held for each in answers for held in await self._finish_all([each])]
        if matched == len(answers):
            return [True] * matched
        records = self._keys.find({"_id": {"$in": [each.record_id for each in answers]}}, {"attempt": 1})
        holders = {each["_id"]: each["attempt"] async for each in records}
        return [holders.get(each.record_id) == each.run_id for each in answers]

    async def _update(self, record_id: str, run_id: str, fields: dict[str, Any]) -> bool:
        return await self._keys.update_matching(_held_by(record_id, run_id), {"$set": fields})


def _held_by(record_id: str, run_id: str) -> dict[str, Any]:
    return {"_id": record_id, "attempt": run_id}


def _to_document(record: IdempotencyRecord) -> dict[str, Any]:
    return {
        "_id": record.id,
        "fingerprint": record.fingerprint,
        "attempt": record.run_id,
        "gateway": record.gateway,
        "lease": record.lease,
        "expires": datetime.fromtimestamp(record.expires, UTC),  # a date, as the TTL index needs it
        "answer": None,
    }


async def _from_document(document: dict[str, Any]) -> IdempotencyRecord:
    kept = document["answer"]
    return IdempotencyRecord(
        id=document["_id"],
        fingerprint=document["fingerprint"],
        run_id=document["attempt"],
        lease=document["lease"],
        expires=document["expires"].replace(tzinfo=UTC).timestamp(),
        gateway=document.get("gateway", ""),  # records of earlier versions have none
        answer=None if kept is None else await _read(kept),
    )


def _statement(stated: Mapping[str, Any]) -> UsageStatement:
    parts = parts_from_documents(stated.get("parts", ()))
    outcome = Outcome(stated["outcome"])
    reported = reported_from_document(stated.get("reported"))
    return UsageStatement(usage_from_document(stated), outcome, SettlementSource.SWEPT, parts=parts, reported=reported)


async def _read(kept: dict[str, Any]) -> KeptAnswer:
    body = kept["body"]
    plain = None if body is None else await asyncio.to_thread(zlib.decompress, bytes(body))
    return KeptAnswer(kept["status"], dict(kept["headers"]), plain)
