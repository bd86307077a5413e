"""Writers, owners and sweepers killed after each step: the next sweep leaves no bytes, document or counted byte."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from auth_billing.store.connection import StoreConnection
from stored_objects.blobs.blobs import Blobs
from stored_objects.errors import BlobNotFound
from stored_objects.files.files import FILE_PREFIX, ProjectFiles, public_id
from stored_objects.files.uploads import UPLOAD_LIFETIME
from stored_objects.objects.objects import LIFETIME, StoredObjects
from stored_objects.objects.quota import QUIET_TIME, CountSubject
from stored_objects.objects.records import ObjectKind, ObjectState
from stored_objects.objects.sweeper import ObjectSweeper
from stored_objects.store.byte_counts import MongoByteCounts
from stored_objects.store.objects import MongoObjectStore
from tests.fakes.stored_objects import stored_objects
from tests.stored_objects.conftest import Clock
from tests.stored_objects.crash import (
    CONTENT,
    OWNER,
    PROJECT,
    delete_and_die,
    put_and_die,
    sweep_and_die,
    upload_and_die,
)
from tests.stored_objects.objects.test_objects import blob_ids

pytestmark = pytest.mark.store

SUBJECTS = (CountSubject("org-1", "user-ada"), CountSubject("org-1"))


@pytest.fixture
def blobs_url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/blobs"


@pytest.fixture
def objects(connection: StoreConnection, blobs_url: str, clock: Clock) -> StoredObjects:
    blobs = Blobs(blobs_url, max_bytes=10**6)
    return stored_objects(MongoObjectStore(connection), MongoByteCounts(connection), blobs, clock=clock)


async def dies(target: Callable[..., None], *arguments: object) -> bool:
    """Return whether a process that runs `target` is killed before it is done."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    await asyncio.to_thread(process.join, 60)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode == -signal.SIGKILL


async def test_nothing_is_left_of_a_writer_that_is_killed(
    objects: StoredObjects, database_url: str, blobs_url: str, clock: Clock
) -> None:
    """A killed writer has returned no id, so what it has written expires."""
    last = 1
    while await dies(put_and_die, database_url, blobs_url, last):
        documents = await objects.documents.expired(clock.now + 10**6, 10)
        for stored in documents:  # complete or not to be read
            if stored.state is ObjectState.READY:
                assert await objects.get(OWNER, stored.id) == CONTENT
            else:
                with pytest.raises(BlobNotFound):
                    await objects.get(OWNER, stored.id)
        assert set(await blob_ids(objects.blobs)) <= {each.id for each in documents}
        clock.now += LIFETIME
        await check_nothing_is_left(objects, clock)
        clock.now = Clock().now
        last += 1
    assert last == 7  # counts of owner and organisation, document, draft, bytes, document


async def test_an_upload_that_is_killed_leaves_a_whole_file_or_nothing(
    objects: StoredObjects, database_url: str, blobs_url: str, clock: Clock
) -> None:
    last, whole = 0, 0
    files = ProjectFiles(objects, clock=clock)
    killed = True
    while killed:
        last, clock.now = last + 1, Clock().now
        killed = await dies(upload_and_die, database_url, blobs_url, last)
        clock.now += UPLOAD_LIFETIME
        await ObjectSweeper(objects, clock=clock).sweep()
        for file in await files.listed(PROJECT, purpose=None, after=None, limit=9, descending=True):
            stored = await files.find(PROJECT, public_id(FILE_PREFIX, file.id))
            assert b"".join([each async for each in objects.stream(stored)]) == 2 * CONTENT
            whole += 1
        clock.now += UPLOAD_LIFETIME
        await check_nothing_is_left(objects, clock)
    assert last > 12
    assert whole >= 2  # after the last write, and without a death


@pytest.mark.parametrize(("target", "steps"), [(delete_and_die, 6), (sweep_and_die, 5)])
async def test_a_deletion_that_is_killed_is_completed(
    objects: StoredObjects,
    database_url: str,
    blobs_url: str,
    clock: Clock,
    target: Callable[..., None],
    steps: int,
) -> None:
    last, killed = 0, True
    while killed:
        last, clock.now = last + 1, Clock().now
        stored = await objects.put(OWNER, CONTENT, kind=ObjectKind.IMAGE, media_type="image/png")
        killed = await dies(target, database_url, blobs_url, last, stored.id)
        with pytest.raises(BlobNotFound):
            await objects.find(OWNER, stored.id)
        clock.now += LIFETIME
        await check_nothing_is_left(objects, clock)
    assert last == steps + 1


async def check_nothing_is_left(objects: StoredObjects, clock: Clock) -> None:
    await ObjectSweeper(objects, clock=clock).sweep()
    assert await blob_ids(objects.blobs) == []
    assert await objects.documents.expired(clock.now + 10**6, 10) == []
    clock.now += QUIET_TIME + 1
    for subject in SUBJECTS:  # a count that is too high does not hinder anyone
        full = objects.quotas.per_owner if subject.requester else objects.quotas.per_organisation
        await objects.quotas._reserve(subject, full, full)
        assert await objects.quotas.counts.add(subject, -full, clock.now)
        assert await objects.quotas.used(subject) == 0
