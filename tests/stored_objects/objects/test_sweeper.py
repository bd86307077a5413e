"""The sweeper of stored objects: deletes what has expired or was left by processes that died, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from auth_billing.errors import StoreUnavailable
from stored_objects.blobs.blobs import Blobs, new_blob_id
from stored_objects.errors import BlobNotFound, BlobsUnavailable
from stored_objects.objects import sweeper as module
from stored_objects.objects.objects import LIFETIME, StoredObjects
from stored_objects.objects.quota import CountSubject
from stored_objects.objects.sweeper import ORPHAN_AGE, ObjectSweeper
from tests.fakes.stored_objects import stored_objects as in_memory
from tests.stored_objects.conftest import ADA, Clock, ObjectStores
from tests.stored_objects.objects.test_objects import blob_ids, put


@pytest.fixture
def objects(stores: ObjectStores, blobs: Blobs, clock: Clock) -> StoredObjects:
    return in_memory(stores.documents, stores.counts, blobs, clock=clock)


def swept(objects: StoredObjects, reason: str) -> float:
    return float(objects.metrics.swept.labels(reason)._value.get())


async def test_expired_objects_are_deleted_and_kept_ones_stay(objects: StoredObjects, clock: Clock) -> None:
    sweeper = ObjectSweeper(objects, clock=clock)
    expired, kept = [await put(objects) for _ in range(3)], await put(objects)
    await objects.keep(kept.id, ADA, "chat-1")
    assert await sweeper.sweep() == 0
    clock.now += LIFETIME
    fresh = await put(objects)
    assert await sweeper.sweep() == 3
    assert set(await blob_ids(objects.blobs)) == {kept.id, fresh.id}
    assert await objects.documents.known([each.id for each in expired]) == set()
    await objects.release(ADA, "chat-1")
    assert await sweeper.sweep() == 1
    assert swept(objects, "expired") == 4
    exact = await objects.documents.stored_bytes("org-1", None)
    assert await objects.quotas.used(CountSubject("org-1")) == exact


async def test_more_objects_than_a_batch_are_deleted(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 4)
    objects = in_memory(clock=clock)
    for _ in range(11):
        await put(objects)
    clock.now += LIFETIME
    assert await ObjectSweeper(objects, clock=clock).sweep() == 11


async def test_sweepers_at_the_same_time_count_each_object_once(objects: StoredObjects, clock: Clock) -> None:
    for _ in range(5):
        await put(objects)
    clock.now += LIFETIME
    assert sum(await asyncio.gather(*(ObjectSweeper(objects, clock=clock).sweep() for _ in range(3)))) == 5
    assert await objects.quotas.used(CountSubject("org-1", "user-ada")) == 0


async def test_one_failure_does_not_stop_a_sweep(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    objects = in_memory(clock=clock)
    stored, delete = [await put(objects) for _ in range(4)], Blobs.delete
    clock.now += LIFETIME

    async def fail_once(self: Blobs, blob: str) -> None:
        if blob == stored[0].id:
            raise BlobsUnavailable("no answer")
        await delete(self, blob)

    with monkeypatch.context() as patched:
        patched.setattr(Blobs, "delete", fail_once)
        assert await ObjectSweeper(objects, clock=clock).sweep() == 3
    assert objects.metrics.sweep_failures._value.get() >= 1
    assert await ObjectSweeper(objects, clock=clock).sweep() == 1
    assert swept(objects, "deleting") == 1


async def test_orphans_are_deleted_after_a_day(objects: StoredObjects, clock: Clock) -> None:
    clock.now = 4e9  # blobs have the file system's times
    stored, orphan = await put(objects), new_blob_id()
    await objects.blobs.put(orphan, b"content")
    written = await objects.blobs.modified(orphan)
    sweeper = ObjectSweeper(objects, clock=lambda: written + ORPHAN_AGE - 1)
    assert await sweeper.sweep_orphans() == 0
    sweeper = ObjectSweeper(objects, clock=lambda: written + ORPHAN_AGE + 1)
    assert await sweeper.sweep_orphans() == 1
    assert await blob_ids(objects.blobs) == [stored.id]
    assert swept(objects, "orphan") == 1


async def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    blobs = Blobs(f"file://{tmp_path}/blobs", max_bytes=100)
    await blobs.check()
    (tmp_path / "blobs/ab/deeper").mkdir(parents=True)
    names = ("README", "ab/README", "ab/blob_short", "ab/deeper/blob_x")
    for name in names:
        (tmp_path / "blobs" / name).write_text("foreign")
    assert await ObjectSweeper(in_memory(blobs=blobs), clock=lambda: 4e9).sweep_orphans() == 0
    assert all((tmp_path / "blobs" / name).exists() for name in names)
    blobs.close()


async def test_a_blob_that_disappears_meanwhile_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = in_memory()
    await objects.blobs.put(new_blob_id(), b"content")

    async def gone(self: Blobs, blob: str) -> float:
        raise BlobNotFound("deleted by another sweeper")

    monkeypatch.setattr(Blobs, "modified", gone)
    assert await ObjectSweeper(objects, clock=lambda: 4e9).sweep_orphans() == 0


async def test_a_store_that_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL", 0.01)
    monkeypatch.setattr(module, "ORPHAN_INTERVAL", 0.0)
    objects, calls, both = in_memory(), [], asyncio.Event()

    async def fail(self: ObjectSweeper) -> int:
        calls.append(1)
        if len(calls) < 3:
            raise StoreUnavailable("no answer")
        return 0

    async def search(self: ObjectSweeper) -> int:
        both.set()
        return 0

    monkeypatch.setattr(ObjectSweeper, "sweep", fail)
    monkeypatch.setattr(ObjectSweeper, "sweep_orphans", search)
    running = asyncio.create_task(ObjectSweeper(objects).run())
    await asyncio.wait_for(both.wait(), 10)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert objects.metrics.sweep_failures._value.get() == 2
