"""Documents and counts of stored objects in dictionaries, and stored objects whose blobs are in memory."""

from __future__ import annotations

import tempfile
import time
import uuid
import weakref
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from prometheus_client import CollectorRegistry

from documents.search.local_index import LocalIndex
from gateway.content_cipher import ContentCipher, content_key
from stored_objects.blobs.addresses import AddressSigner, address_key
from stored_objects.blobs.blobs import Blobs
from stored_objects.objects.metrics import ObjectMetrics
from stored_objects.objects.objects import StoredObjects
from stored_objects.objects.quota import ByteCounts, StorageQuotas
from stored_objects.objects.records import (
    RECORD_BYTES,
    ObjectOwner,
    ObjectQuery,
    ObjectState,
    ObjectStore,
    StoredObject,
)
from stored_objects.project_documents.project_documents import StoredDocuments
from stored_objects.vector_stores.searches import VectorStoreSearches
from stored_objects.vector_stores.vector_stores import VectorStores
from tests.fakes.byte_counts import MIB, DictByteCounts
from tests.fakes.project_documents import stored_documents
from tests.fakes.vector_stores import vector_stores

ADDRESS_KEY = address_key(b"pepper of the tests" * 2)
CONTENT_KEY = content_key(b"pepper of the tests" * 2)


class DictObjectStore:
    """`records.ObjectStore` in a dictionary."""

    def __init__(self) -> None:
        self.records: dict[str, StoredObject] = {}

    async def insert(self, record: StoredObject) -> bool:
        return self.records.setdefault(record.id, record) is record

    async def finish(self, record: StoredObject) -> bool:
        found = self.records.get(record.id)
        if found is None or found.state is not ObjectState.PENDING:
            return False
        self.records[record.id] = record
        return True

    async def abandon(self, id: str, now: float) -> bool:
        found = self.records.get(id)
        if found is None or found.state is not ObjectState.PENDING:
            return False
        self.records[id] = replace(found, state=ObjectState.DELETING, expires=now)
        return True

    async def listed(self, query: ObjectQuery) -> list[StoredObject]:
        def place(record: StoredObject) -> tuple[float, str]:
            return record.created, record.id

        found = [
            replace(each, parts=[])
            for each in sorted(self.records.values(), key=place, reverse=query.descending)
            if (each.owner, each.kind) == (query.owner, query.kind)
            and each.is_available(query.now)
            and query.purpose in (None, each.purpose)
            and (query.after is None or (place(each) < place(query.after)) is query.descending)
            and (query.after is None or place(each) != place(query.after))
        ]
        return found[: query.limit]

    async def parts_of(self, owner: ObjectOwner, id: str) -> list[StoredObject]:
        return [each for each in self.records.values() if each.owner == owner and each.part_of == id]

    async def find(self, owner: ObjectOwner, id: str) -> StoredObject | None:
        found = self.records.get(id)
        return found if found is not None and found.owner == owner else None

    async def find_signed(self, id: str) -> StoredObject | None:
        return self.records.get(id)

    async def add_reference(self, owner: ObjectOwner, id: str, reference: str, now: float) -> bool:
        found = await self.find(owner, id)
        if found is None or found.state is not ObjectState.READY:
            return False
        if reference not in found.references:
            if not found.is_available(now):
                return False
            self.records[id] = replace(found, references=[*found.references, reference], kept=found.kept + 1)
        return True

    async def remove_reference(self, owner: ObjectOwner, reference: str) -> None:
        for each in list(self.records.values()):
            if each.owner == owner and reference in each.references:
                left = [other for other in each.references if other != reference]
                self.records[each.id] = replace(each, references=left, kept=len(left))

    async def expire(self, owner: ObjectOwner, id: str, now: float) -> bool:
        found = await self.find(owner, id)
        if found is None or found.state is not ObjectState.READY:
            return False
        self.records[id] = replace(found, state=ObjectState.DELETING, expires=now, references=[], kept=0)
        return True

    async def expired(self, now: float, limit: int) -> list[StoredObject]:
        found = [each for each in self.records.values() if each.kept == 0 and each.expires <= now]
        return sorted(found, key=lambda each: each.expires)[:limit]

    async def begin_deletion(self, id: str, now: float) -> bool:
        found = self.records.get(id)
        if found is None or found.kept or found.expires > now:
            return False
        self.records[id] = replace(found, state=ObjectState.DELETING)
        return True

    async def remove(self, id: str) -> bool:
        found = self.records.get(id)
        if found is None or found.state is not ObjectState.DELETING:
            return False
        del self.records[id]
        return True

    async def known(self, ids: Collection[str]) -> set[str]:
        return self.records.keys() & set(ids)

    async def stored_bytes(self, organisation: str, requester: str | None) -> int:
        return sum(
            each.own_size + RECORD_BYTES
            for each in self.records.values()
            if each.organisation == organisation and requester in (None, each.requester)
        )


def stored_objects(
    documents: ObjectStore | None = None,
    counts: ByteCounts | None = None,
    blobs: Blobs | None = None,
    *,
    clock: Callable[[], float] = time.time,
    per_owner: int = 100 * MIB,
    per_project: int = 100 * MIB,
    per_organisation: int = 1000 * MIB,
) -> StoredObjects:
    """Stored objects; what is not given is in memory."""
    documents = documents or DictObjectStore()
    quotas = StorageQuotas(
        counts or DictByteCounts(),
        [documents],
        per_owner=per_owner,
        per_project=per_project,
        per_organisation=per_organisation,
        clock=clock,
    )
    blobs = blobs or Blobs(f"memory://{uuid.uuid4().hex}", max_bytes=MIB)
    return StoredObjects(blobs, documents, quotas, ObjectMetrics(CollectorRegistry()), clock=clock)


def object_services(
    documents: StoredDocuments | None = None, clock: Callable[[], float] = time.time
) -> tuple[StoredObjects, AddressSigner, ContentCipher, StoredDocuments, VectorStores, VectorStoreSearches]:
    """Stored objects in memory, a signer of addresses, a cipher and what projects keep, for `GatewayServices`."""
    signer, cipher, objects = AddressSigner(ADDRESS_KEY, clock), ContentCipher(CONTENT_KEY), stored_objects(clock=clock)
    kept, stores = documents or stored_documents(clock), vector_stores(objects, clock)
    return objects, signer, cipher, kept, stores, searches_in(stores)


def searches_in(stores: VectorStores) -> VectorStoreSearches:
    """Searches in vector stores, whose indexes are in a folder that is deleted with them."""
    folder = tempfile.TemporaryDirectory()
    searches = VectorStoreSearches(stores, Path(folder.name), LocalIndex, update_timeout=60.0)
    weakref.finalize(searches, folder.cleanup)
    return searches
