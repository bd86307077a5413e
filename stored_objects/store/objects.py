"""Keeps the documents of stored objects in MongoDB: `stored_objects {_id: id, organisation, requester, state, ...}`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document, to_document
from stored_objects.objects.records import (
    RECORD_BYTES,
    ObjectKind,
    ObjectOwner,
    ObjectPart,
    ObjectQuery,
    ObjectState,
    StoredObject,
)

COLLECTION = "stored_objects"
_OF_FILES = frozenset({"name", "purpose", "lifetime", "part_of", "in_parts", "parts"})


class MongoObjectStore:
    """MongoDB implementation of `records.ObjectStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._objects = connection.durable(COLLECTION)

    async def insert(self, record: StoredObject) -> bool:
        """Insert the document of a new, pending object into MongoDB.

        Return false, without a change, if its id is taken.
        """
        return await self._objects.insert_if_absent(_document(record))

    async def finish(self, record: StoredObject) -> bool:
        """Replace the document of one pending object in MongoDB by that of the ready object `record`.

        Return false, without a change, if it is not pending any more: it is being deleted.
        """
        pending = {"_id": record.id, "state": ObjectState.PENDING.value}
        return await self._objects.update_matching(pending, {"$set": _document(record)})

    async def abandon(self, id: str, now: float) -> bool:
        """Mark one pending object in MongoDB as being deleted; return false if it is not pending."""
        deleting = {"state": ObjectState.DELETING.value, "expires": now}
        return await self._objects.update_matching({"_id": id, "state": ObjectState.PENDING.value}, {"$set": deleting})

    async def find(self, owner: ObjectOwner, id: str) -> StoredObject | None:
        """Read the document of one object of `owner` in any state from MongoDB.

        Return `None` if there is none with this id.
        """
        return await self._objects.find_record(_record, {"_id": id, **_owned_by(owner)})

    async def listed(self, query: ObjectQuery) -> list[StoredObject]:
        """Read the documents of the available objects that match `query` from MongoDB, without their parts."""
        ready = {**_owned_by(query.owner), "kind": query.kind.value, "state": ObjectState.READY.value}
        terms: list[dict[str, Any]] = [ready, {"$or": [{"kept": {"$gt": 0}}, {"expires": {"$gt": query.now}}]}]
        if query.purpose is not None:
            terms.append({"purpose": query.purpose})
        if query.after is not None:
            beyond = "$lt" if query.descending else "$gt"
            same = {"created": query.after.created, "_id": {beyond: query.after.id}}
            terms.append({"$or": [{"created": {beyond: query.after.created}}, same]})
        order = -1 if query.descending else 1
        found = self._objects.find({"$and": terms}, {"parts": 0}).sort([("created", order), ("_id", order)])
        return [_record(each) for each in await found.limit(query.limit).to_list(query.limit)]

    async def parts_of(self, owner: ObjectOwner, id: str) -> list[StoredObject]:
        """Read the documents of the objects of `owner` that are part of the object `id` from MongoDB."""
        return [_record(each) async for each in self._objects.find({"part_of": id, **_owned_by(owner)})]

    async def find_signed(self, id: str) -> StoredObject | None:
        """Read the document of one object of any owner, or `None`.

        Only for callers that have verified its signed URL.
        """
        return await self._objects.find_record(_record, {"_id": id})

    async def add_reference(self, owner: ObjectOwner, id: str, reference: str, now: float) -> bool:
        """Add the conversation `reference` to those that keep one available object; return whether it is among them."""
        one = {"_id": id, **_owned_by(owner), "state": ObjectState.READY.value}
        available = {"$or": [{"kept": {"$gt": 0}}, {"expires": {"$gt": now}}]}
        change = {"$push": {"references": reference}, "$inc": {"kept": 1}}
        if await self._objects.update_matching({**one, **available, "references": {"$ne": reference}}, change):
            return True
        return await self._objects.find_one({**one, "references": reference}) is not None

    async def remove_reference(self, owner: ObjectOwner, reference: str) -> None:
        """Remove the conversation `reference` from those that keep the owner's objects, in one MongoDB update."""
        change = {"$pull": {"references": reference}, "$inc": {"kept": -1}}
        await self._objects.update_many({**_owned_by(owner), "references": reference}, change)

    async def expire(self, owner: ObjectOwner, id: str, now: float) -> bool:
        """Mark one ready object of `owner` as being deleted and kept by no conversation.

        Return false if it is not ready.
        """
        deleting = {"state": ObjectState.DELETING.value, "expires": now, "references": [], "kept": 0}
        one = {"_id": id, **_owned_by(owner), "state": ObjectState.READY.value}
        return await self._objects.update_matching(one, {"$set": deleting})

    async def expired(self, now: float, limit: int) -> list[StoredObject]:
        """Read up to `limit` documents of objects expired before `now` that no conversation keeps, oldest first."""
        found = self._objects.find({"kept": 0, "expires": {"$lte": now}}).sort("expires", 1).limit(limit)
        return [_record(each) for each in await found.to_list(limit)]

    async def begin_deletion(self, id: str, now: float) -> bool:
        """Mark one expired, unkept object as being deleted, so that nothing reads or keeps it.

        Return false if the object is not expired, or a conversation keeps it.
        """
        change = {"$set": {"state": ObjectState.DELETING.value}}
        return await self._objects.update_matching({"_id": id, "kept": 0, "expires": {"$lte": now}}, change)

    async def remove(self, id: str) -> bool:
        """Remove the document of one object that is being deleted; return false if another process has removed it."""
        removed = await self._objects.delete_one({"_id": id, "state": ObjectState.DELETING.value})
        return bool(removed.deleted_count)

    async def known(self, ids: Collection[str]) -> set[str]:
        """Return the subset of `ids` (blob ids) that have a document in MongoDB."""
        found = self._objects.find({"_id": {"$in": list(ids)}}, {"_id": 1})
        return {each["_id"] async for each in found}

    async def stored_bytes(self, organisation: str, requester: str | None) -> int:
        """Sum up in MongoDB the bytes that an owner or (`requester` is `None`) organisation stores, for its byte count.

        The sum of the objects' own sizes, plus `RECORD_BYTES` for each document.
        """
        own = {} if requester is None else {"requester": requester}
        size = {"$cond": [{"$eq": ["$in_parts", True]}, 0, "$size"]}
        group = {"_id": None, "bytes": {"$sum": size}, "number": {"$sum": 1}}
        stages = [{"$match": {"organisation": organisation, **own}}, {"$group": group}]
        found = await self._objects.aggregate(stages).to_list(1)
        return sum(each["bytes"] + RECORD_BYTES * each["number"] for each in found)


def _owned_by(owner: ObjectOwner) -> dict[str, Any]:
    return {"organisation": owner.organisation, "requester": owner.requester}


def _document(record: StoredObject) -> dict[str, Any]:
    """Return the MongoDB document of an object; fields that only files have are left out where they are empty."""
    parts = [vars(each) for each in record.parts]
    document = to_document(record, kind=record.kind.value, state=record.state.value, parts=parts)
    return {name: value for name, value in document.items() if value or name not in _OF_FILES}


def _record(document: dict[str, Any]) -> StoredObject:
    kind, state = ObjectKind(document["kind"]), ObjectState(document["state"])
    parts = [ObjectPart(**each) for each in document.get("parts", ())]
    return from_document(StoredObject, document, kind=kind, state=state, parts=parts)
