"""Stored objects: written in order, read by their owner, kept by conversations, deleted completely."""

from __future__ import annotations

import asyncio

import pytest

from stored_objects.blobs.blobs import Blobs, derived_blob_id, new_blob_id
from stored_objects.errors import (
    BlobNotFound,
    BlobsUnavailable,
    BlobTooLarge,
    StorageQuotaExceeded,
    UnacceptableMediaType,
)
from stored_objects.objects.objects import LIFETIME, PENDING_TIME, StoredObjects
from stored_objects.objects.quota import CountSubject
from stored_objects.objects.records import RECORD_BYTES, ObjectKind, ObjectOwner, ObjectState, StoredObject
from tests.fakes.byte_counts import MIB
from tests.fakes.stored_objects import DictObjectStore
from tests.fakes.stored_objects import stored_objects as in_memory
from tests.stored_objects.conftest import ADA, BOB, EVE, Clock, ObjectStores

PNG = b"\x89PNG" + bytes(1000)


@pytest.fixture
def objects(stores: ObjectStores, blobs: Blobs, clock: Clock) -> StoredObjects:
    return in_memory(stores.documents, stores.counts, blobs, clock=clock)


async def put(objects: StoredObjects, owner: ObjectOwner = ADA, content: bytes = PNG) -> StoredObject:
    return await objects.put(owner, content, kind=ObjectKind.IMAGE, media_type="image/png")


async def blob_ids(blobs: Blobs) -> list[str]:
    return [each for folder in await blobs.folders() for each in await blobs.list_folder(folder)]


async def test_an_object_is_stored_read_and_deleted(objects: StoredObjects) -> None:
    stored = await put(objects)
    assert (stored.state, stored.media_type, stored.size) == (ObjectState.READY, "image/png", len(PNG))
    assert await objects.find(ADA, stored.id) == stored
    assert await objects.get(ADA, stored.id) == PNG
    assert b"".join([each async for each in objects.stream(await objects.find_signed(stored.id))]) == PNG
    assert await objects.quotas.used(CountSubject("org-1", "user-ada")) == len(PNG) + RECORD_BYTES
    await objects.delete(stored.id, ADA)
    assert await blob_ids(objects.blobs) == []
    assert await objects.documents.known([stored.id]) == set()
    assert await objects.quotas.used(CountSubject("org-1")) == 0


async def test_an_object_with_an_id_is_not_written_over(objects: StoredObjects) -> None:
    id = derived_blob_id("job-s2-0")
    first = await objects.put(ADA, PNG, kind=ObjectKind.IMAGE, media_type="image/png", id=id)
    second = await objects.put(ADA, PNG + b"2", kind=ObjectKind.IMAGE, media_type="image/png", id=id)
    assert first.id == id != second.id
    assert (await objects.get(ADA, first.id), await objects.get(ADA, second.id)) == (PNG, PNG + b"2")
    assert await objects.quotas.used(CountSubject("org-1")) == 2 * (len(PNG) + RECORD_BYTES) + 1


async def test_other_owners_find_nothing(objects: StoredObjects) -> None:
    stored = await put(objects)
    for owner in (BOB, EVE):
        for call in (
            objects.find(owner, stored.id),
            objects.get(owner, stored.id),
            objects.keep(stored.id, owner, "chat-1"),
            objects.delete(stored.id, owner),
        ):
            with pytest.raises(BlobNotFound):
                await call
    assert await objects.get(ADA, stored.id) == PNG


@pytest.mark.parametrize("id", ["", "../x", new_blob_id()], ids=["empty", "path", "unknown"])
async def test_unknown_ids_are_not_found(id: str) -> None:
    objects = in_memory()
    for call in (objects.find(ADA, id), objects.find_signed(id), objects.keep(id, ADA, "c"), objects.delete(id, ADA)):
        with pytest.raises(BlobNotFound):
            await call


async def test_an_object_expires_unless_a_conversation_keeps_it(objects: StoredObjects, clock: Clock) -> None:
    kept, expired = await put(objects), await put(objects)
    await objects.keep(kept.id, ADA, "chat-1")
    clock.now += LIFETIME
    with pytest.raises(BlobNotFound):
        await objects.find(ADA, expired.id)
    with pytest.raises(BlobNotFound):
        await objects.keep(expired.id, ADA, "chat-1")
    assert not await objects.remove(await objects.find(ADA, kept.id))
    await objects.keep(kept.id, ADA, "chat-2")
    await objects.release(ADA, "chat-1")
    assert await objects.get(ADA, kept.id) == PNG
    await objects.release(ADA, "chat-2")
    with pytest.raises(BlobNotFound):
        await objects.find_signed(kept.id)


async def test_what_is_refused_leaves_nothing() -> None:
    objects = in_memory(per_owner=len(PNG) + RECORD_BYTES)
    assert isinstance(objects.documents, DictObjectStore)
    with pytest.raises(BlobTooLarge):
        await put(objects, content=bytes(MIB + 1))
    for wrong in ("image", "image/png\r\nx: y", "Image/PNG", "image/", "text/html; charset=utf-8"):
        with pytest.raises(UnacceptableMediaType):
            await objects.put(ADA, PNG, kind=ObjectKind.IMAGE, media_type=wrong)
    assert not objects.documents.records
    stored = await put(objects)
    with pytest.raises(StorageQuotaExceeded):
        await put(objects)
    assert list(objects.documents.records) == [stored.id] == await blob_ids(objects.blobs)


async def test_a_write_that_took_too_long_is_undone(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweeper deletes the pending document while the bytes are written."""
    objects, write = in_memory(clock=clock), Blobs.put

    async def slow(self: Blobs, blob: str, content: bytes) -> object:
        clock.now += PENDING_TIME
        (stored,) = await objects.documents.expired(clock(), 10)
        assert await objects.remove(stored)
        return await write(self, blob, content)

    monkeypatch.setattr(Blobs, "put", slow)
    with pytest.raises(BlobsUnavailable):
        await put(objects)
    assert await blob_ids(objects.blobs) == []
    assert await objects.quotas.used(CountSubject("org-1")) == 0


async def test_deletions_at_the_same_time_free_the_bytes_once(objects: StoredObjects, clock: Clock) -> None:
    stored, other = await put(objects), await put(objects)
    clock.now += LIFETIME
    removed = await asyncio.gather(*(objects.remove(stored) for _ in range(4)))
    assert removed.count(True) == 1
    assert await objects.quotas.used(CountSubject("org-1")) == len(PNG) + RECORD_BYTES
    assert await blob_ids(objects.blobs) == [other.id]


async def test_a_deletion_that_fails_half_way_is_left_to_the_sweeper(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = in_memory()
    stored = await put(objects)

    async def fail(self: Blobs, blob: str) -> None:
        raise BlobsUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(Blobs, "delete", fail)
        await objects.delete(stored.id, ADA)
    with pytest.raises(BlobNotFound):
        await objects.find(ADA, stored.id)
    (left,) = await objects.documents.expired(objects._clock(), 10)
    assert await objects.remove(left)
