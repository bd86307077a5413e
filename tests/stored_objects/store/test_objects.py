"""Documents of stored objects in MongoDB and in memory: found by their owner only, deleted in order."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import Any

import pytest

from stored_objects.blobs.blobs import new_blob_id
from stored_objects.objects.records import (
    RECORD_BYTES,
    ObjectKind,
    ObjectOwner,
    ObjectPart,
    ObjectQuery,
    ObjectState,
    ObjectStore,
    StoredObject,
)
from tests.stored_objects.conftest import ADA, BOB, EVE, START, ObjectStores

DIGEST = "ab" * 32


@pytest.fixture
def documents(stores: ObjectStores) -> ObjectStore:
    return stores.documents


async def pending(documents: ObjectStore, owner: ObjectOwner = ADA, size: int = 10) -> StoredObject:
    who = (owner.organisation, owner.requester)
    record = StoredObject(new_blob_id(), *who, ObjectKind.IMAGE, "image/png", size, START, START + 600)
    await documents.insert(record)
    return record


async def ready(documents: ObjectStore, owner: ObjectOwner = ADA, expires: float = START + 3600) -> StoredObject:
    record = finished(await pending(documents, owner), expires)
    assert await documents.finish(record)
    return record


def finished(record: StoredObject, expires: float = START + 3600) -> StoredObject:
    return replace(record, sha256=DIGEST, expires=expires, state=ObjectState.READY)


async def test_an_object_is_found_by_its_owner_only(documents: ObjectStore) -> None:
    record = await ready(documents)
    assert await documents.find(ADA, record.id) == record
    assert await documents.find_signed(record.id) == record
    assert [await documents.find(each, record.id) for each in (BOB, EVE)] == [None, None]
    assert await documents.find(ADA, new_blob_id()) is None


async def test_a_pending_object_becomes_ready_once(documents: ObjectStore) -> None:
    record = await pending(documents)
    assert await documents.find(ADA, record.id) == record
    assert not record.is_available(START)
    assert await documents.finish(finished(record))
    assert not await documents.finish(finished(record, START + 9999))
    assert not await documents.finish(finished(replace(record, id=new_blob_id())))
    assert await documents.find(ADA, record.id) == finished(record)


async def test_references_are_counted_once_each(documents: ObjectStore) -> None:
    record = await ready(documents)
    for reference in ("chat-1", "chat-1", "chat-2"):
        assert await documents.add_reference(ADA, record.id, reference, START)
    assert not await documents.add_reference(BOB, record.id, "chat-1", START)
    kept = await documents.find(ADA, record.id)
    assert kept is not None
    assert (kept.references, kept.kept) == (["chat-1", "chat-2"], 2)
    assert kept.is_available(START + 10**6)
    await documents.remove_reference(BOB, "chat-1")
    for _ in range(2):
        await documents.remove_reference(ADA, "chat-1")
    kept = await documents.find(ADA, record.id)
    assert kept is not None
    assert (kept.references, kept.kept) == (["chat-2"], 1)


async def test_an_expired_object_can_be_kept_only_if_it_is_kept_already(documents: ObjectStore) -> None:
    expired, kept, late = await ready(documents), await ready(documents), START + 3600
    assert await documents.add_reference(ADA, kept.id, "chat-1", START)
    assert not await documents.add_reference(ADA, expired.id, "chat-1", late)
    assert await documents.add_reference(ADA, kept.id, "chat-2", late)


async def test_expired_objects_without_references_are_found_the_oldest_first(documents: ObjectStore) -> None:
    second, first = await ready(documents, expires=START + 2), await ready(documents, BOB, START + 1)
    kept, later = await ready(documents, expires=START), await ready(documents, expires=START + 100)
    assert await documents.add_reference(ADA, kept.id, "chat-1", START - 1)
    assert await documents.expired(START + 50, 10) == [first, second]
    assert await documents.expired(START + 50, 1) == [first]
    await documents.remove_reference(ADA, "chat-1")
    assert {each.id for each in await documents.expired(START + 200, 10)} == {first.id, second.id, kept.id, later.id}


async def test_a_deletion_begins_for_expired_objects_only(documents: ObjectStore) -> None:
    record = await ready(documents)
    assert not await documents.begin_deletion(record.id, START)
    assert not await documents.remove(record.id)
    assert await documents.begin_deletion(record.id, START + 3600)
    assert await documents.begin_deletion(record.id, START + 3600)  # repeated by another sweeper
    assert not await documents.add_reference(ADA, record.id, "chat-1", START)
    assert not await documents.finish(record)
    assert await documents.remove(record.id)
    assert not await documents.remove(record.id)
    assert not await documents.begin_deletion(record.id, START + 3600)


async def test_an_owner_deletes_an_object_although_it_is_kept(documents: ObjectStore) -> None:
    record = await ready(documents)
    assert await documents.add_reference(ADA, record.id, "chat-1", START)
    assert not await documents.expire(BOB, record.id, START)
    assert await documents.expire(ADA, record.id, START)
    assert not await documents.expire(ADA, record.id, START)
    found = await documents.find(ADA, record.id)
    assert found is not None
    assert (found.state, found.references, found.kept) == (ObjectState.DELETING, [], 0)
    assert [each.id for each in await documents.expired(START, 10)] == [record.id]


async def test_either_the_sweeper_or_a_conversation_gets_an_object(documents: ObjectStore) -> None:
    records = [await ready(documents) for _ in range(20)]
    kept, taken = await asyncio.gather(
        asyncio.gather(*(documents.add_reference(ADA, each.id, "chat-1", START) for each in records)),
        asyncio.gather(*(documents.begin_deletion(each.id, START + 3600) for each in records)),
    )
    assert all(one != other for one, other in zip(kept, taken, strict=True))


async def test_sums_of_bytes_are_by_owner_and_organisation(documents: ObjectStore) -> None:
    for owner, size in ((ADA, 10), (ADA, 20), (BOB, 40), (EVE, 80)):
        await pending(documents, owner, size)
    assert await documents.stored_bytes("org-1", "user-ada") == 30 + 2 * RECORD_BYTES
    assert await documents.stored_bytes("org-1", None) == 70 + 3 * RECORD_BYTES
    assert await documents.stored_bytes("org-3", None) == 0


async def test_known_ids_are_those_with_a_document(documents: ObjectStore) -> None:
    record = await pending(documents)
    assert await documents.known([record.id, new_blob_id()]) == {record.id}
    assert await documents.known([]) == set()


async def test_a_pending_object_is_abandoned_once(documents: ObjectStore) -> None:
    record, complete = await pending(documents), await ready(documents)
    assert await documents.abandon(record.id, START)
    assert not await documents.abandon(record.id, START)
    assert not await documents.abandon(complete.id, START)
    assert not await documents.finish(finished(record))
    assert [each.id for each in await documents.expired(START, 10)] == [record.id]


async def test_every_field_of_a_file_is_read_as_it_was_written(documents: ObjectStore) -> None:
    record = replace(await pending(documents), in_parts=True, lifetime=math.inf)
    parts = [ObjectPart(new_blob_id(), size, DIGEST) for size in (3, 2**40)]
    file = replace(finished(record, math.inf), name="\u00fc \u202e.txt", purpose="batch", parts=parts)
    assert await documents.finish(file)
    assert await documents.find(ADA, record.id) == file


async def test_pages_of_files_are_in_order_of_creation(documents: ObjectStore) -> None:
    """Also where several files were created at the same time, and one after the first page was read."""
    records = [await file(documents, START + number // 2, purpose="ab"[number % 2]) for number in range(6)]
    records.sort(key=lambda each: (each.created, each.id))
    query = ObjectQuery(ADA, ObjectKind.FILE, START + 100, 2, descending=False)
    assert await documents.listed(query) == records[:2]
    assert await documents.listed(replace(query, after=records[1])) == records[2:4]
    assert await documents.listed(replace(query, after=records[5])) == []
    newest = replace(query, descending=True, limit=4)
    assert await documents.listed(newest) == records[:1:-1]
    await file(documents, START + 50)
    assert await documents.listed(replace(newest, after=records[2])) == records[1::-1]
    of_purpose = [each for each in records if each.purpose == "b"]
    assert await documents.listed(replace(query, limit=10, purpose="b")) == of_purpose
    assert await documents.listed(replace(query, limit=10, purpose="c")) == []


async def test_only_available_objects_of_the_owner_and_kind_are_listed(documents: ObjectStore) -> None:
    record = await file(documents, START)
    await file(documents, START, owner=BOB)
    await file(documents, START, kind=ObjectKind.PART)
    expired, kept = await file(documents, START, expires=START + 10), await file(documents, START, expires=START + 10)
    assert await documents.add_reference(ADA, kept.id, "file", START)
    await pending(documents)
    found = await documents.listed(ObjectQuery(ADA, ObjectKind.FILE, START + 10, 10))
    assert {each.id for each in found} == {record.id, kept.id}
    before = await documents.listed(ObjectQuery(ADA, ObjectKind.FILE, START + 9, 10))
    assert expired in before


async def test_parts_are_found_by_their_object_and_counted_themselves(documents: ObjectStore) -> None:
    whole = await file(documents, START, in_parts=True, size=10)
    parts = [await file(documents, START, kind=ObjectKind.PART, part_of=whole.id, size=5) for _ in range(2)]
    await file(documents, START, kind=ObjectKind.PART, part_of=new_blob_id(), size=5)
    found = await documents.parts_of(ADA, whole.id)
    assert sorted(found, key=lambda each: each.id) == sorted(parts, key=lambda each: each.id)
    assert await documents.parts_of(BOB, whole.id) == []
    assert await documents.stored_bytes("org-1", "user-ada") == 15 + 4 * RECORD_BYTES


async def file(
    documents: ObjectStore,
    created: float,
    *,
    owner: ObjectOwner = ADA,
    kind: ObjectKind = ObjectKind.FILE,
    size: int = 10,
    expires: float = math.inf,
    **fields: Any,
) -> StoredObject:
    """A ready object with these fields."""
    who = (owner.organisation, owner.requester)
    record = StoredObject(new_blob_id(), *who, kind, "text/plain", size, created, START + 600, **fields)
    assert await documents.insert(record)
    assert await documents.finish(finished(record, expires))
    return finished(record, expires)
