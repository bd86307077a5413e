"""Keeps project documents in MongoDB, each kind in a collection of its own.

    {_id: id, organisation, project, created, expires, model, parent, content: binary, metadata: ["key\\nvalue", ...]}

Content is binary, because clients' JSON has field names that MongoDB does not store (`$ref`). A metadata pair is one
string, so that an index-free `$all` compares whole pairs; a key has no line feed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document, to_document
from stored_objects.documents.records import DocumentQuery, ProjectDocument, ProjectOwner

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

    async def replace(self, document: ProjectDocument) -> bool:
        """Replace one document of its owner in MongoDB; return false if there is none."""
        stored = document_of(document)
        query = {"_id": stored.pop("_id"), **owned_by(document.owner)}
        return await self._documents.update_matching(query, {"$set": stored})

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
        found = self._documents.find(selected).sort([("created", direction), ("_id", direction)]).limit(query.limit)
        return [record_of(each) for each in await found.to_list(query.limit)]

    async def set_metadata(self, owner: ProjectOwner, id: str, metadata: Mapping[str, str], now: float) -> bool:
        """Replace the metadata of one document of `owner` in MongoDB; return false if there is none with this id."""
        change = {"$set": {"metadata": _pairs(metadata)}}
        return await self._documents.update_matching({"_id": id, **_available(owner, now)}, change)

    async def renew(self, owner: ProjectOwner, id: str, expires: float) -> None:
        """Set the expiry of one document of `owner` and of its items in MongoDB."""
        query = {**owned_by(owner), "$or": [{"_id": id}, {"parent": id}]}
        await self._documents.update_many(query, {"$set": {"expires": expires}})

    async def delete(self, owner: ProjectOwner, id: str) -> bool:
        """Erase one document of `owner` and its items from MongoDB; return false if there is none.

        The items go first: a deletion that is cut off can be repeated.
        """
        await self._documents.delete_many({"parent": id, **owned_by(owner)})
        return bool((await self._documents.delete_one({"_id": id, **owned_by(owner)})).deleted_count)

    async def delete_expired(self, now: float, limit: int) -> int:
        """Erase up to `limit` documents of any owner that expired before `now` from MongoDB; return their number."""
        found = self._documents.find({"expires": {"$lte": now}}, {"_id": 1}).limit(limit)
        ids = [each["_id"] for each in await found.to_list(limit)]
        if not ids:
            return 0
        return int((await self._documents.delete_many({"_id": {"$in": ids}})).deleted_count)


def owned_by(owner: ProjectOwner) -> dict[str, Any]:
    """Return the MongoDB query for documents of `owner`."""
    return {"organisation": owner.organisation, "project": owner.project}


def _available(owner: ProjectOwner, now: float) -> dict[str, Any]:
    return {**owned_by(owner), "expires": {"$gt": now}}


def _pairs(metadata: Mapping[str, str]) -> list[str]:
    return [f"{key}\n{value}" for key, value in metadata.items()]


def document_of(record: ProjectDocument) -> dict[str, Any]:
    """Return a project document in the form in which MongoDB has it."""
    return to_document(record, metadata=_pairs(record.metadata))


def record_of(document: dict[str, Any]) -> ProjectDocument:
    """Return a project document from the form in which MongoDB has it."""
    pairs = (pair.partition("\n") for pair in document["metadata"])
    metadata = {key: value for key, _, value in pairs}
    return from_document(ProjectDocument, document, metadata=metadata, content=bytes(document["content"]))
