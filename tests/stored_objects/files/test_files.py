"""Files of projects: written from streams, found by their project only, listed in pages, kept or expired."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator

import pytest

from stored_objects.blobs.blobs import Blobs, new_blob_id
from stored_objects.errors import BlobNotFound, BlobTooLarge, StorageQuotaExceeded
from stored_objects.files.files import (
    BATCH_LIFETIME,
    FILE_PREFIX,
    ProjectFiles,
    Purpose,
    blob_id,
    clean_name,
    public_id,
)
from stored_objects.objects.objects import FileLimits
from stored_objects.objects.quota import CountSubject
from stored_objects.objects.records import RECORD_BYTES, ObjectKind, ObjectOwner, StoredObject
from stored_objects.objects.sweeper import ObjectSweeper
from tests.fakes.stored_objects import stored_objects
from tests.stored_objects.blobs.test_blobs import stream_of
from tests.stored_objects.conftest import ADA, Clock, ObjectStores
from tests.stored_objects.objects.test_objects import blob_ids

PROJECT, OTHER = ObjectOwner.of_project("org-1", "proj-1"), ObjectOwner.of_project("org-1", "proj-2")
FOREIGN = ObjectOwner.of_project("org-2", "proj-1")
CONTENT = b'{"custom_id": "1"}\n'


@pytest.fixture
def files(stores: ObjectStores, blobs: Blobs, clock: Clock) -> ProjectFiles:
    objects = stored_objects(stores.documents, stores.counts, blobs, clock=clock, per_project=10**6)
    objects.file_limits = FileLimits(max_bytes=10**6)
    return ProjectFiles(objects, clock=clock)


async def store(
    files: ProjectFiles,
    content: bytes = CONTENT,
    *,
    owner: ObjectOwner = PROJECT,
    bound: int = 5000,
    purpose: Purpose = Purpose.USER_DATA,
    lifetime: float | None = None,
) -> StoredObject:
    async with files.pending(owner, bound) as pending:
        written = await files.objects.write(pending, stream_of([content]))
        return await files.finish(written, pending, name="a/b.jsonl", purpose=purpose, lifetime=lifetime)


async def used(files: ProjectFiles) -> list[int]:
    subjects = (CountSubject("org-1", PROJECT.requester), CountSubject("org-1"))
    return [await files.objects.quotas.used(each) for each in subjects]


async def test_a_file_is_stored_found_and_deleted(files: ProjectFiles) -> None:
    stored = await store(files)
    id = public_id(FILE_PREFIX, stored.id)
    assert await files.find(PROJECT, id) == stored
    assert (stored.name, stored.purpose, stored.size, stored.expires) == (
        "b.jsonl",
        "user_data",
        len(CONTENT),
        math.inf,
    )
    assert b"".join([each async for each in files.objects.stream(stored)]) == CONTENT
    assert await used(files) == [len(CONTENT) + RECORD_BYTES] * 2  # what was reserved beyond is free again
    await files.delete(PROJECT, id)
    with pytest.raises(BlobNotFound):
        await files.find(PROJECT, id)
    assert await used(files) == [0, 0]
    assert await blob_ids(files.objects.blobs) == []


async def test_other_projects_find_nothing(files: ProjectFiles) -> None:
    id = public_id(FILE_PREFIX, (await store(files)).id)
    for owner in (OTHER, FOREIGN, ADA):
        for call in (
            files.find(owner, id),
            files.delete(owner, id),
            files.listed(owner, purpose=None, after=id, limit=1, descending=True),
        ):
            with pytest.raises(BlobNotFound):
                await call
        assert await files.listed(owner, purpose=None, after=None, limit=1, descending=True) == []
    assert len(await files.listed(PROJECT, purpose=None, after=None, limit=9, descending=True)) == 1


@pytest.mark.parametrize(
    "id", ["", "file-", "file-../../x", "file_" + "a" * 24, "blob_" + "a" * 24, "file-" + "a" * 24]
)
async def test_unknown_ids_are_not_found(files: ProjectFiles, id: str) -> None:
    for call in (files.find(PROJECT, id), files.delete(PROJECT, id)):
        with pytest.raises(BlobNotFound):
            await call


async def test_an_image_of_the_owner_is_no_file(files: ProjectFiles) -> None:
    image = await files.objects.put(PROJECT, CONTENT, kind=ObjectKind.IMAGE, media_type="image/png")
    with pytest.raises(BlobNotFound):
        await files.find(PROJECT, public_id(FILE_PREFIX, image.id))


async def test_pages_follow_one_another(files: ProjectFiles, clock: Clock) -> None:
    stored = []
    for purpose in (Purpose.BATCH, Purpose.VISION, Purpose.BATCH):
        stored.append(await store(files, purpose=purpose))
        clock.now += 1
    last = public_id(FILE_PREFIX, stored[0].id)
    page = await files.listed(PROJECT, purpose="batch", after=last, limit=5, descending=False)
    assert page == [stored[2]]
    assert await files.listed(PROJECT, purpose=None, after=None, limit=2, descending=True) == stored[:0:-1]


@pytest.mark.parametrize(
    ("purpose", "lifetime", "seconds"), [("batch", None, BATCH_LIFETIME), ("vision", 3600.0, 3600)]
)
async def test_files_expire(
    files: ProjectFiles, clock: Clock, purpose: str, lifetime: float | None, seconds: float
) -> None:
    stored = await store(files, purpose=Purpose(purpose), lifetime=lifetime)
    clock.now += seconds - 1
    assert await ObjectSweeper(files.objects, clock=clock).sweep() == 0
    clock.now += 1
    with pytest.raises(BlobNotFound):
        await files.find(PROJECT, public_id(FILE_PREFIX, stored.id))
    assert await ObjectSweeper(files.objects, clock=clock).sweep() == 1
    assert await used(files) == [0, 0]


async def test_what_is_refused_or_breaks_off_leaves_nothing(files: ProjectFiles) -> None:
    async def cut() -> AsyncIterator[bytes]:
        yield CONTENT
        raise ConnectionResetError

    with pytest.raises(BlobTooLarge):
        await store(files, bound=10**6 + 1)
    with pytest.raises(BlobTooLarge):
        await store(files, bytes(10), bound=9)
    with pytest.raises(ConnectionResetError):
        async with files.pending(PROJECT, 5000) as pending:
            await files.objects.write(pending, cut())
    with pytest.raises(StorageQuotaExceeded):
        await store(files, bound=10**6)  # with the document it is more than the project's quota
    assert await used(files) == [0, 0]
    assert await blob_ids(files.objects.blobs) == []
    assert await files.objects.documents.expired(math.inf, 10) == []


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("report.txt", "report.txt"),
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\x.html", "x.html"),
        ("a\0b\r\nSet-Cookie: x", "abSet-Cookie: x"),
        ("\u202egpj.exe", "gpj.exe"),
        ("żółw \U0001f422.txt", "żółw \U0001f422.txt"),
        ("", "file"),
        ("..\0/", "file"),
        ("x" * 1000, "x" * 255),
        ("\ud800", "file"),
    ],
)
def test_file_names_are_harmless(name: str, clean: str) -> None:
    assert clean_name(name) == clean


def test_ids_of_clients_are_those_of_objects() -> None:
    blob = new_blob_id()
    assert blob_id(FILE_PREFIX, public_id(FILE_PREFIX, blob)) == blob
