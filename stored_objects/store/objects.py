"""MongoDB store of the documents of stored objects: `stored_objects {_id: id, organisation, requester, state, ...}`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document, to_document
from stored_objects.records import RECORD_BYTES, ObjectKind, ObjectOwner, ObjectState, StoredObject

COLLECTION = "stored_objects"


class MongoObjectStore:
    """MongoDB implementation of `records.ObjectStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._objects = connection.durable(COLLECTION)

    async def insert(self, record: StoredObject) -> bool:
        """Store the document of a new, pending object; false, and no change, if there is one with its id."""
        document = to_document(record, kind=record.kind.value, state=record.state.value)
        return await self._objects.insert_if_absent(document)

    async def finish(self, id: str, sha256: str, expires: float) -> bool:
        """Turn a pending object into a ready one; false if the sweeper has taken it meanwhile."""
        ready = {"sha256": sha256, "expires": expires, "state": ObjectState.READY.value}
        return await self._objects.update_matching({"_id": id, "state": ObjectState.PENDING.value}, {"$set": ready})

    async def find(self, owner: ObjectOwner, id: str) -> StoredObject | None:
        """Return the owner's object, in any state."""
        return await self._objects.find_record(_record, {"_id": id, **_owned_by(owner)})

    async def find_signed(self, id: str) -> StoredObject | None:
        """Return the object of any owner, for a caller that has proved the right to read it by a signature."""
        return await self._objects.find_record(_record, {"_id": id})

    async def add_reference(self, owner: ObjectOwner, id: str, reference: str, now: float) -> bool:
        """Add a conversation to an available object's references; true if it is among them now."""
        one = {"_id": id, **_owned_by(owner), "state": ObjectState.READY.value}
        available = {"$or": [{"kept": {"$gt": 0}}, {"expires": {"$gt": now}}]}
        change = {"$push": {"references": reference}, "$inc": {"kept": 1}}
        if await self._objects.update_matching({**one, **available, "references": {"$ne": reference}}, change):
            return True
        return await self._objects.find_one({**one, "references": reference}) is not None

    async def remove_reference(self, owner: ObjectOwner, reference: str) -> None:
        """Remove a conversation from the references of all objects of the owner."""
        change = {"$pull": {"references": reference}, "$inc": {"kept": -1}}
        await self._objects.update_many({**_owned_by(owner), "references": reference}, change)

    async def expire(self, owner: ObjectOwner, id: str, now: float) -> bool:
        """Begin the deletion of the owner's object and remove its references; false if it is not ready."""
        deleting = {"state": ObjectState.DELETING.value, "expires": now, "references": [], "kept": 0}
        one = {"_id": id, **_owned_by(owner), "state": ObjectState.READY.value}
        return await self._objects.update_matching(one, {"$set": deleting})

    async def expired(self, now: float, limit: int) -> list[StoredObject]:
        """Return up to `limit` objects without references that expired before `now`, the oldest first."""
        found = self._objects.find({"kept": 0, "expires": {"$lte": now}}).sort("expires", 1).limit(limit)
        return [_record(each) for each in await found.to_list(limit)]

    async def begin_deletion(self, id: str, now: float) -> bool:
        """Mark an expired object without references as being deleted, so that it can't be read or kept any more."""
        change = {"$set": {"state": ObjectState.DELETING.value}}
        return await self._objects.update_matching({"_id": id, "kept": 0, "expires": {"$lte": now}}, change)

    async def remove(self, id: str) -> bool:
        """Remove the document of an object that is being deleted; false if another process has done so."""
        removed = await self._objects.delete_one({"_id": id, "state": ObjectState.DELETING.value})
        return bool(removed.deleted_count)

    async def known(self, ids: Collection[str]) -> set[str]:
        """Return those of `ids` that have a document."""
        found = self._objects.find({"_id": {"$in": list(ids)}}, {"_id": 1})
        return {each["_id"] async for each in found}

    async def stored_bytes(self, organisation: str, requester: str | None) -> int:
        """Return the sum of sizes, and the number of documents times `RECORD_BYTES`, of one owner or organisation."""
        own = {} if requester is None else {"requester": requester}
        group = {"_id": None, "bytes": {"$sum": "$size"}, "number": {"$sum": 1}}
        stages = [{"$match": {"organisation": organisation, **own}}, {"$group": group}]
        found = await self._objects.aggregate(stages).to_list(1)
        return sum(each["bytes"] + RECORD_BYTES * each["number"] for each in found)


def _owned_by(owner: ObjectOwner) -> dict[str, Any]:
    return {"organisation": owner.organisation, "requester": owner.requester}


def _record(document: dict[str, Any]) -> StoredObject:
    kind, state = ObjectKind(document["kind"]), ObjectState(document["state"])
    return from_document(StoredObject, document, kind=kind, state=state)
