"""Keeps batches in MongoDB: `batches {_id: id, organisation, project, state, runner, lease, progress: {...}, ...}`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from pymongo import ReturnDocument

from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document, to_document
from stored_objects.objects.records import ObjectPart
from stored_objects.project_documents.batches import (
    OPEN_STATES,
    RETENTION,
    Batch,
    BatchError,
    BatchProgress,
    BatchState,
)

COLLECTION = "batches"
_CANCELLABLE = [BatchState.VALIDATING.value, BatchState.IN_PROGRESS.value]


class MongoBatchStore:
    """MongoDB implementation of `batches.BatchStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._batches = connection.durable(COLLECTION)

    async def insert(self, batch: Batch) -> bool:
        """Insert a new batch into MongoDB; return false, without a change, if its id is taken."""
        return await self._batches.insert_if_absent(_document(batch))

    async def find(self, organisation: str, project: str, id: str) -> Batch | None:
        """Read one batch of a project from MongoDB; `None` if there is none with this id."""
        query = {"_id": id, "organisation": organisation, "project": project}
        return await self._batches.find_record(_record, query)

    async def page(self, organisation: str, project: str, after: Batch | None, limit: int) -> list[Batch]:
        """Read the batches of a project from MongoDB, newest first, at most `limit` after the batch `after`."""
        query: dict[str, Any] = {"organisation": organisation, "project": project}
        if after is not None:
            same = {"created": after.created, "_id": {"$lt": after.id}}
            query["$or"] = [{"created": {"$lt": after.created}}, same]
        without = {"progress.output": 0, "progress.errors": 0, "progress.done": 0}
        found = self._batches.find(query, without).sort([("created", -1), ("_id", -1)]).limit(limit)
        return [_record(each) for each in await found.to_list(limit)]

    async def cancel(self, organisation: str, project: str, id: str, now: float) -> bool:
        """Set the state of a batch that is being validated or in progress to cancelling in MongoDB.

        Return false for any other.
        """
        query = {"_id": id, "organisation": organisation, "project": project, "state": {"$in": _CANCELLABLE}}
        state = BatchState.CANCELLING.value
        return await self._batches.update_matching(query, {"$set": {"state": state, f"times.{state}": now}})

    async def claim(self, runner: str, now: float, lease: float, passed_over: Collection[str] = ()) -> Batch | None:
        """Give one open batch without a live lease to `runner` in MongoDB, the oldest first, and return it."""
        others = {"organisation": {"$nin": list(passed_over)}} if passed_over else {}
        query = {"state": {"$in": OPEN_STATES}, "lease": {"$lte": now}, **others}
        change = {"$set": {"runner": runner, "lease": lease}}
        found = await self._batches.find_one_and_update(
            query, change, sort=[("created", 1)], return_document=ReturnDocument.AFTER
        )
        return None if found is None else _record(found)

    async def renew(self, id: str, runner: str, lease: float) -> Batch | None:
        """Extend the lease of `runner` in MongoDB and return the batch; `None` if it has lost the lease."""
        found = await self._batches.find_one_and_update(
            {"_id": id, "runner": runner}, {"$set": {"lease": lease}}, return_document=ReturnDocument.AFTER
        )
        return None if found is None else _record(found)

    async def change(self, id: str, runner: str, state: BatchState, changes: Mapping[str, Any]) -> bool:
        """Set fields of a batch in MongoDB that is in `state` and whose lease `runner` holds.

        Return false for any other.
        """
        query = {"_id": id, "runner": runner, "state": state.value}
        stored = {name: _stored(value) for name, value in changes.items()}
        return await self._batches.update_matching(query, {"$set": stored})

    async def save(self, id: str, runner: str, progress: BatchProgress) -> bool:
        """Store the progress of an open batch in MongoDB; return false if `runner` has lost its lease."""
        query = {"_id": id, "runner": runner, "state": {"$in": OPEN_STATES}}
        return await self._batches.update_matching(query, {"$set": {"progress": asdict(progress)}})


def _stored(value: Any) -> Any:
    if isinstance(value, BatchState):
        return value.value
    return [vars(each) for each in value] if isinstance(value, list) else value


def _document(batch: Batch) -> dict[str, Any]:
    kept_until = datetime.fromtimestamp(batch.expires + RETENTION, UTC)  # a date, as the TTL index needs it
    stored = {"state": batch.state.value, "failures": _stored(batch.failures), "progress": asdict(batch.progress)}
    metadata = None if batch.metadata is None else [[key, value] for key, value in batch.metadata.items()]
    return {**to_document(batch, **stored), "metadata": metadata, "kept_until": kept_until}


def _record(document: dict[str, Any]) -> Batch:
    progress = document["progress"]
    parts = {name: [ObjectPart(**each) for each in progress.get(name, ())] for name in ("output", "errors")}
    metadata = document["metadata"]
    return from_document(
        Batch,
        document,
        state=BatchState(document["state"]),
        failures=[BatchError(**each) for each in document["failures"]],
        progress=from_document(BatchProgress, progress, **parts),
        metadata=None if metadata is None else dict(metadata),
    )
