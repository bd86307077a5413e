"""Uploads in parts: joined in any order, checked, cancelled, expired; nothing is left or counted twice."""

from __future__ import annotations

import asyncio
import hashlib
import math
import os

import pytest

from stored_objects.blobs.blobs import Blobs
from stored_objects.errors import BlobNotFound, BlobTooLarge, StorageQuotaExceeded, UnacceptableUpload
from stored_objects.files.files import FILE_PREFIX, ProjectFiles, Purpose, public_id
from stored_objects.files.uploads import MAX_PART_BYTES, PART_PREFIX, UPLOAD_LIFETIME, UPLOAD_PREFIX, Uploads
from stored_objects.objects.objects import FileLimits
from stored_objects.objects.records import RECORD_BYTES, StoredObject
from stored_objects.objects.sweeper import ObjectSweeper
from tests.fakes.stored_objects import stored_objects
from tests.stored_objects.blobs.test_blobs import stream_of
from tests.stored_objects.conftest import Clock, ObjectStores
from tests.stored_objects.files.test_files import FOREIGN, OTHER, PROJECT, used
from tests.stored_objects.objects.test_objects import blob_ids

PARTS = [os.urandom(size) for size in (100, 50_000, 1)]
CONTENT = b"".join(PARTS)


@pytest.fixture
def files(stores: ObjectStores, blobs: Blobs, clock: Clock) -> ProjectFiles:
    objects = stored_objects(stores.documents, stores.counts, blobs, clock=clock, per_project=200_000)
    objects.file_limits = FileLimits(max_upload_bytes=10**6)
    return ProjectFiles(objects, clock=clock)


@pytest.fixture
def uploads(files: ProjectFiles, clock: Clock) -> Uploads:
    return Uploads(files, clock=clock)


async def create(uploads: Uploads, size: int = len(CONTENT), lifetime: float | None = None) -> str:
    upload = await uploads.create(PROJECT, name="../x.jsonl", purpose=Purpose.VISION, size=size, lifetime=lifetime)
    return public_id(UPLOAD_PREFIX, upload.id)


async def add(uploads: Uploads, id: str, content: bytes) -> str:
    part = await uploads.add_part(PROJECT, id, len(content) + 10, stream_of([content]))
    return public_id(PART_PREFIX, part.id)


async def read(files: ProjectFiles, file: StoredObject) -> bytes:
    found = await files.find(PROJECT, public_id(FILE_PREFIX, file.id))
    return b"".join([each async for each in files.objects.stream(found)])


async def test_parts_become_a_file_in_the_order_of_their_ids(files: ProjectFiles, uploads: Uploads) -> None:
    id = await create(uploads)
    last, first, middle = [await add(uploads, id, PARTS[number]) for number in (2, 0, 1)]
    unused = await add(uploads, id, b"sent twice")
    checksum = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest().upper()
    file = await uploads.complete(PROJECT, id, [first, middle, last], checksum)
    assert (file.name, file.purpose, file.size, file.expires) == ("x.jsonl", "vision", len(CONTENT), math.inf)
    assert await read(files, file) == CONTENT
    assert unused.removeprefix(PART_PREFIX) not in str(await blob_ids(files.objects.blobs))
    assert await used(files) == [len(CONTENT) + 4 * RECORD_BYTES] * 2
    (listed,) = await files.listed(PROJECT, purpose=None, after=None, limit=9, descending=True)
    assert listed.id == file.id


async def test_a_completed_upload_can_be_completed_again_with_the_same_parts_only(uploads: Uploads) -> None:
    id = await create(uploads, 2)
    parts = [await add(uploads, id, each) for each in (b"a", b"b")]
    file = await uploads.complete(PROJECT, id, parts, None)
    assert await uploads.complete(PROJECT, id, parts, None) == file
    with pytest.raises(UnacceptableUpload):
        await uploads.complete(PROJECT, id, parts[::-1], None)
    for call in (add(uploads, id, b"c"), uploads.cancel(PROJECT, id)):
        with pytest.raises(BlobNotFound):
            await call


async def test_deleting_the_file_deletes_its_parts(files: ProjectFiles, uploads: Uploads, clock: Clock) -> None:
    id = await create(uploads)
    file = await uploads.complete(PROJECT, id, [await add(uploads, id, each) for each in PARTS], None)
    clock.now += UPLOAD_LIFETIME + 1
    assert await ObjectSweeper(files.objects, clock=clock).sweep() == 0  # the file keeps its parts
    assert await read(files, file) == CONTENT
    await files.delete(PROJECT, public_id(FILE_PREFIX, file.id))
    assert await blob_ids(files.objects.blobs) == []
    assert await used(files) == [0, 0]


async def test_an_expired_file_is_swept_with_its_parts(files: ProjectFiles, uploads: Uploads, clock: Clock) -> None:
    id = await create(uploads, lifetime=7200.0)
    await uploads.complete(PROJECT, id, [await add(uploads, id, each) for each in PARTS], None)
    clock.now += 7200
    await ObjectSweeper(files.objects, clock=clock).sweep()
    assert await blob_ids(files.objects.blobs) == []
    assert await files.objects.documents.expired(math.inf, 9) == []
    assert await used(files) == [0, 0]


async def test_cancelled_and_expired_uploads_leave_nothing(files: ProjectFiles, uploads: Uploads, clock: Clock) -> None:
    cancelled, expired = await create(uploads), await create(uploads)
    parts = [await add(uploads, each, PARTS[0]) for each in (cancelled, expired)]
    await uploads.cancel(PROJECT, cancelled)
    clock.now += UPLOAD_LIFETIME
    for id, part in zip((cancelled, expired), parts, strict=True):
        for call in (
            add(uploads, id, b"x"),
            uploads.complete(PROJECT, id, [part], None),
            uploads.cancel(PROJECT, id),
            uploads.find(PROJECT, id),
        ):
            with pytest.raises(BlobNotFound):
                await call
    await ObjectSweeper(files.objects, clock=clock).sweep()
    assert await blob_ids(files.objects.blobs) == []
    assert await used(files) == [0, 0]


async def test_wrong_parts_are_refused_and_the_upload_goes_on(uploads: Uploads) -> None:
    id, other = await create(uploads, 3), await create(uploads, 3)
    a, b, foreign = await add(uploads, id, b"a"), await add(uploads, id, b"bc"), await add(uploads, other, b"bc")
    wrong = [
        ([], "part_ids"),
        ([a], "part_ids"),
        ([a, a, a], "part_ids"),
        ([a, foreign], "part_ids"),
        (["x"], "part_ids"),
    ]
    for parts, field in wrong:
        with pytest.raises(UnacceptableUpload) as refused:
            await uploads.complete(PROJECT, id, parts, None)
        assert refused.value.param == field
    with pytest.raises(UnacceptableUpload) as refused:
        await uploads.complete(PROJECT, id, [a, b], "0" * 32)
    assert refused.value.param == "md5"
    assert (await uploads.complete(PROJECT, id, [a, b], None)).size == 3


async def test_limits_of_uploads(files: ProjectFiles, uploads: Uploads) -> None:
    with pytest.raises(BlobTooLarge):
        await create(uploads, 10**6 + 1)
    id = await create(uploads)
    with pytest.raises(BlobTooLarge):
        await uploads.add_part(PROJECT, id, MAX_PART_BYTES + 1, stream_of([]))
    with pytest.raises(UnacceptableUpload):
        await add(uploads, id, b"")
    with pytest.raises(StorageQuotaExceeded):
        await add(uploads, id, bytes(200_000))
    assert await used(files) == [RECORD_BYTES] * 2


async def test_other_projects_find_no_upload(uploads: Uploads) -> None:
    id = await create(uploads, 1)
    part = await add(uploads, id, b"a")
    for owner in (OTHER, FOREIGN):
        for call in (
            uploads.find(owner, id),
            uploads.add_part(owner, id, 1, stream_of([b"a"])),
            uploads.complete(owner, id, [part], None),
            uploads.cancel(owner, id),
        ):
            with pytest.raises(BlobNotFound):
                await call


async def test_either_the_completion_or_the_cancellation_wins(
    files: ProjectFiles, uploads: Uploads, clock: Clock
) -> None:
    for _ in range(5):
        id = await create(uploads, 1)
        part = await add(uploads, id, b"a")
        done = await asyncio.gather(
            uploads.complete(PROJECT, id, [part], None), uploads.cancel(PROJECT, id), return_exceptions=True
        )
        assert sum(isinstance(each, BaseException) for each in done) == 1
        if isinstance(done[0], StoredObject):
            assert await read(files, done[0]) == b"a"
            await files.delete(PROJECT, public_id(FILE_PREFIX, done[0].id))
    clock.now += UPLOAD_LIFETIME
    await ObjectSweeper(files.objects, clock=clock).sweep()
    assert await blob_ids(files.objects.blobs) == []
    assert await used(files) == [0, 0]


async def test_concurrent_completions_make_one_file_that_keeps_its_parts(
    files: ProjectFiles, uploads: Uploads, clock: Clock
) -> None:
    id = await create(uploads)
    parts = [await add(uploads, id, each) for each in PARTS]
    same, again, other = await asyncio.gather(
        uploads.complete(PROJECT, id, parts, None),
        uploads.complete(PROJECT, id, parts, None),
        uploads.complete(PROJECT, id, parts[::-1], None),
        return_exceptions=True,
    )
    made = [each for each in (same, again, other) if isinstance(each, StoredObject)]
    assert made
    assert made.count(made[0]) == len(made)
    assert all(isinstance(each, StoredObject | UnacceptableUpload) for each in (same, again, other))
    clock.now += UPLOAD_LIFETIME
    await ObjectSweeper(files.objects, clock=clock).sweep()
    assert sorted(await read(files, made[0])) == sorted(CONTENT)
