"""Converts vector stores and their files to MongoDB's documents and back, and reads pages of the documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from auth_billing.store.collection import Collection as MongoCollection
from auth_billing.store.documents import from_document
from documents.search.filters import AttributeValue
from stored_objects.vector_stores.access import Reader
from stored_objects.vector_stores.records import (
    Chunking,
    FileState,
    ImportFailure,
    PageQuery,
    VectorStore,
    VectorStoreFile,
)

SHOWN = {"deleted": {"$ne": True}}
"""Condition of vector stores that are not being deleted."""


async def read_page(collection: MongoCollection, query: dict[str, Any], page: PageQuery) -> list[dict[str, Any]]:
    """Read a page of the documents that match a MongoDB query, ordered by creation."""
    ascending = page.order == "asc"
    bounds = [(page.after, "$gt" if ascending else "$lt"), (page.before, "$lt" if ascending else "$gt")]
    terms = [
        {"$or": [{"created": {beyond: place.created}}, {"created": place.created, "_id": {beyond: place.id}}]}
        for place, beyond in bounds
        if place is not None
    ]
    direction = 1 if ascending is not page.is_backward else -1
    found = collection.find({**query, **({"$and": terms} if terms else {})})
    documents = await found.sort([("created", direction), ("_id", direction)]).limit(page.limit).to_list(page.limit)
    return documents[::-1] if page.is_backward else documents


def pairs_of(values: Mapping[str, AttributeValue]) -> list[list[AttributeValue]]:
    """Return metadata or attributes as pairs: their names may have characters that names of fields must not."""
    return [[key, value] for key, value in values.items()]


def store_of(document: dict[str, Any]) -> VectorStore:
    """Return the vector store of a document."""
    found = from_document(VectorStore, document, metadata=dict(document["metadata"]))
    return replace(found, shared_with=[each for each in document.get("readers", ()) if each != found.owner_grantee])


def readable_by(reader: Reader) -> dict[str, Any]:
    """Return the condition of the vector stores that `reader` may read."""
    return {"organisation": reader.organisation, "readers": {"$in": reader.grantees}, **SHOWN}


def document_of(file: VectorStoreFile) -> dict[str, Any]:
    """Return the document of a file of a vector store."""
    failure = None if file.failure is None else asdict(file.failure)
    stored = {"state": file.state.value, "chunking": asdict(file.chunking), "failure": failure}
    return {
        **vars(file),
        "_id": file.id,
        **stored,
        "attributes": pairs_of(file.attributes),
        "record_size": file.record_size,
    }


def file_of(document: dict[str, Any]) -> VectorStoreFile:
    """Return the file of a vector store that a document is of."""
    failure = document["failure"]
    fields = {name: value for name, value in document.items() if name != "_id"}
    return from_document(
        VectorStoreFile,
        fields,
        state=FileState(document["state"]),
        chunking=Chunking(**document["chunking"]),
        failure=None if failure is None else ImportFailure(**failure),
        attributes=dict(document["attributes"]),
    )
