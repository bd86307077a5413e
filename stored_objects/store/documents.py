"""Keeps project documents in MongoDB, each kind in a collection of its own.

    {_id: id, organisation, project, created, expires, model, parent, size, content: binary,
     metadata: ["key\\nvalue", ...]}

Content is binary, because clients' JSON has field names that MongoDB does not store (`$ref`). A metadata pair is one
string, so that an index-free `$all` compares whole pairs; a key has no line feed. `size`: the bytes that are counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document, to_document
from stored_objects.objects.records import is_project, project_id
from stored_objects.project_documents.records import (
    PAGE_BYTES,
    DocumentQuery,
    ErasedDocuments,
    ProjectDocument,
    ProjectOwner,
)

COMPLETIONS = "stored_chat_completions"
"""Collection of stored chat completions."""
RESPONSES = "responses"
"""Collection of stored responses."""
CONVERSATIONS = "api_conversations"
"""Collection of conversations of the API and their items; those of the web chat are in `conversations`."""
COLLECTIONS = (COMPLETIONS, RESPONSES, CONVERSATIONS)
"""Collections of all kinds of project documents."""


class MongoDocumentStore:
    """MongoDB implementation of `documents.records.DocumentStore` in one collection."""

    def __init__(self, connection: StoreConnection, collection: str) -> None:
        self._documents = connection.durable(collection)

    async def insert(self, documents: Sequence[ProjectDocument]) -> None:
        """Insert new documents into MongoDB by one write; one that is stored already is not changed."""
        await self._documents.insert_new([document_of(each) for each in documents])

    async def find(self, owner: ProjectOwner, id: str, now: float) -> ProjectDocument | None:
        """Read one document of `owner` from MongoDB; `None` if there is none with this id."""
        return await self._documents.find_record(record_of, {"_id": id, **_available(owner, now)})

    async def find_many(self, owner: ProjectOwner, ids: Sequence[str], now: float) -> list[ProjectDocument]:
        """Read those documents of `owner` that have one of these `ids` from MongoDB, in any order."""
        found = self._documents.find({"_id": {"$in": list(ids)}, **_available(owner, now)})
        return [record_of(each) for each in await found.to_list(len(ids))]

    async def page(self, owner: ProjectOwner, query: DocumentQuery, now: float) -> list[ProjectDocument]:
        """Read the documents of `owner` that match `query` from MongoDB, in its order, at most `query.limit`."""
        selected: dict[str, Any] = {**_available(owner, now), "parent": query.parent}
        if query.model is not None:
            selected["model"] = query.model
        if query.metadata:
            selected["metadata"] = {"$all": _pairs(query.metadata)}
        ascending = query.order == "asc"
        if (last := query.after) is not None:
            beyond = "$gt" if ascending else "$lt"
            later = {"created": {beyond: last.created}}
            selected["$or"] = [later, {"created": last.created, "_id": {beyond: last.id}}]
        direction = 1 if ascending else -1
        cursor = self._documents.find(selected).sort([("created", direction), ("_id", direction)]).limit(query.limit)
        found: list[ProjectDocument] = []
        size = 0
        async with aclosing(aiter(cursor)) as documents:
            async for each in documents:
                found.append(record_of(each))
                size += len(found[-1].content)
                if size > PAGE_BYTES and len(found) > 1:
                    break
        return found

    async def set_metadata(self, document: ProjectDocument, size: int, now: float) -> bool:
        """Replace the metadata and size of one document in MongoDB by those of `document`.

        Return false, without a change, if it is gone or does not have the size `size`.
        """
        change = {"$set": {"metadata": _pairs(document.metadata), "size": document.size}}
        query = {"_id": document.id, "size": {"$in": [size, None]}, **_available(document.owner, now)}
        return await self._documents.update_matching(query, change)

    async def renew(self, owner: ProjectOwner, id: str, expires: float) -> None:
        """Set the expiry of one document of `owner` and of its items in MongoDB."""
        query = {**owned_by(owner), "$or": [{"_id": id}, {"parent": id}]}
        await self._documents.update_many(query, {"$set": {"expires": expires}})

    async def delete(self, owner: ProjectOwner, id: str) -> int | None:
        """Erase one document of `owner` from MongoDB; return the bytes counted for it, `None` if there is none."""
        while (found := await self._documents.find_one({"_id": id, **owned_by(owner)}, _SIZE)) is not None:
            as_found = {"_id": id, "size": found.get("size")}  # another call may change the size meanwhile
            if (await self._documents.delete_one(as_found)).deleted_count:
                return _size(found)
        return None

    async def delete_items(self, owner: ProjectOwner, parent: str) -> int:
        """Erase the items of one document of `owner` from MongoDB; return the bytes counted for them."""
        return sum(each.size for each in await self._erase({"parent": parent, **owned_by(owner)}))

    async def delete_expired(self, now: float, limit: int) -> list[ErasedDocuments]:
        """Erase up to `limit` documents of any owner that expired before `now` from MongoDB; return them by owner."""
        return await self._erase({"expires": {"$lte": now}}, limit)

    async def stored_bytes(self, organisation: str, requester: str | None) -> int:
        """Sum up in MongoDB the sizes of a project's or (`requester` is `None`) organisation's documents."""
        if requester is not None and not is_project(requester):
            return 0
        own: dict[str, Any] = {} if requester is None else {"project": project_id(requester)}
        own["size"] = {"$gt": 0}  # logs of background responses are counted in their ended responses
        group = {"_id": None, "size": {"$sum": "$size"}}
        found = self._documents.aggregate([{"$match": {"organisation": organisation, **own}}, {"$group": group}])
        return sum(each["size"] for each in await found.to_list(1))

    async def _erase(self, query: dict[str, Any], limit: int | None = None) -> list[ErasedDocuments]:
        found = await self._documents.find(query, _SIZE).limit(limit or 0).to_list(limit)
        by_owner: dict[ProjectOwner, dict[str, int]] = defaultdict(dict)
        for each in found:
            by_owner[ProjectOwner(each["organisation"], each["project"])][each["_id"]] = _size(each)
        erased = []
        for owner, sizes in by_owner.items():
            number = (await self._documents.delete_many({"_id": {"$in": list(sizes)}})).deleted_count
            # Fewer if another process erased some at the same time: it is not known which, so the smallest are counted.
            erased.append(ErasedDocuments(owner, number, sum(sorted(sizes.values())[:number])))
        return erased


_SIZE = {"organisation": 1, "project": 1, "size": 1}


def owned_by(owner: ProjectOwner) -> dict[str, Any]:
    """Return the MongoDB query for documents of `owner`."""
    return {"organisation": owner.organisation, "project": owner.project}


def _size(document: dict[str, Any]) -> int:
    """Return the bytes that are counted for a stored document: none for one of a version without quotas."""
    return int(document.get("size", 0))


def _available(owner: ProjectOwner, now: float) -> dict[str, Any]:
    return {**owned_by(owner), "expires": {"$gt": now}}


def _pairs(metadata: Mapping[str, str]) -> list[str]:
    return [f"{key}\n{value}" for key, value in metadata.items()]


def document_of(record: ProjectDocument) -> dict[str, Any]:
    """Return a project document in the form in which MongoDB has it."""
    return to_document(record, metadata=_pairs(record.metadata), size=record.size)


def record_of(document: dict[str, Any]) -> ProjectDocument:
    """Return a project document from the form in which MongoDB has it."""
    pairs = (pair.partition("\n") for pair in document["metadata"])
    metadata = {key: value for key, _, value in pairs}
    return from_document(ProjectDocument, document, metadata=metadata, content=bytes(document["content"]))
