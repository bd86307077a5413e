"""Blobs in a folder, in memory and in S3: complete or absent, and checked when they are read."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from runtime.lifecycle import StartupError
from stored_objects.blobs.blobs import CHUNK, BlobInfo, Blobs, derived_blob_id, is_blob_id, new_blob_id
from stored_objects.errors import BlobCorrupt, BlobNotFound, BlobsUnavailable, BlobTooLarge
from tests.stored_objects.conftest import MAX_BYTES

CONTENTS = [b"", b"x", os.urandom(CHUNK), os.urandom(2 * CHUNK + 17), os.urandom(MAX_BYTES)]


@pytest.mark.parametrize("content", CONTENTS, ids=lambda each: str(len(each)))
async def test_a_blob_is_read_as_it_was_written(blobs: Blobs, content: bytes) -> None:
    await blobs.check()
    blob = new_blob_id()
    info = await blobs.put(blob, content)
    assert info == BlobInfo(len(content), hashlib.sha256(content).hexdigest())
    assert await blobs.get(blob, info) == content
    chunks = [each async for each in blobs.stream(blob, info)]
    assert b"".join(chunks) == content
    assert max(map(len, chunks)) <= CHUNK


async def test_a_blob_is_written_from_a_stream(blobs: Blobs) -> None:
    pieces = [os.urandom(size) for size in (1, 0, 700_000, 2 * CHUNK, 3)]
    content, blob = b"".join(pieces), new_blob_id()
    info = await blobs.write(blob, stream_of(pieces), max_bytes=len(content))
    assert info == BlobInfo.of(content)
    assert await blobs.get(blob, info) == content
    empty = await blobs.write(new_blob_id(), stream_of([]), max_bytes=0)
    assert empty == BlobInfo.of(b"")


@pytest.mark.parametrize("size", [1, CHUNK, 3 * CHUNK, 20 * CHUNK], ids=str)
async def test_a_stream_that_fails_leaves_nothing(blobs: Blobs, size: int) -> None:
    """A small blob, and one of which parts were sent to S3 already."""

    async def cut() -> AsyncIterator[bytes]:
        for _ in range(0, size, CHUNK):
            yield bytes(min(size, CHUNK))
        raise ConnectionResetError("the client has left")

    blob = new_blob_id()
    with pytest.raises(ConnectionResetError):
        await blobs.write(blob, cut(), max_bytes=size)
    with pytest.raises(BlobTooLarge):
        await blobs.write(blob, stream_of([bytes(size), b"x"]), max_bytes=size)
    gc.collect()
    assert [each for folder in await blobs.folders() for each in await blobs.list_folder(folder)] == []


async def test_a_write_that_is_cancelled_leaves_nothing(blobs: Blobs) -> None:
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield bytes(CHUNK)
        begun.set()
        await asyncio.Event().wait()

    writing = asyncio.create_task(blobs.write(new_blob_id(), endless(), max_bytes=10 * CHUNK))
    await begun.wait()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert [each for folder in await blobs.folders() for each in await blobs.list_folder(folder)] == []


async def test_a_deleted_blob_is_not_found(blobs: Blobs) -> None:
    blob = new_blob_id()
    info = await blobs.put(blob, b"content")
    await blobs.delete(blob)
    await blobs.delete(blob)
    with pytest.raises(BlobNotFound):
        await blobs.get(blob, info)
    with pytest.raises(BlobNotFound):
        await blobs.modified(blob)


async def test_too_large_a_blob_is_not_written(blobs: Blobs) -> None:
    with pytest.raises(BlobTooLarge) as refused:
        await blobs.put(new_blob_id(), bytes(MAX_BYTES + 1))
    assert (refused.value.size, refused.value.limit) == (MAX_BYTES + 1, MAX_BYTES)
    assert await blobs.folders() == []


@pytest.mark.parametrize("changed", [b"content!", b"conten", b"Content"], ids=["longer", "shorter", "other"])
async def test_changed_content_is_never_read_completely(blobs: Blobs, changed: bytes) -> None:
    blob = new_blob_id()
    await blobs.put(blob, changed)
    with pytest.raises(BlobCorrupt):
        await blobs.get(blob, BlobInfo.of(b"content"))


async def test_the_last_chunk_is_held_back_until_the_digest_agrees(blobs: Blobs) -> None:
    content, blob = os.urandom(CHUNK + 5), new_blob_id()
    await blobs.put(blob, content)
    stream = blobs.stream(blob, BlobInfo(len(content), "0" * 64))
    assert await anext(stream) == content[:CHUNK]
    with pytest.raises(BlobCorrupt):
        await anext(stream)


@pytest.mark.parametrize(
    "name", ["", "../secret", "blob_", "blob_" + "a" * 23 + "/", "blob_" + "a" * 25, "blob_" + "é" * 24, "blob_a\0"]
)
async def test_other_names_never_reach_the_file_system(blobs: Blobs, name: str) -> None:
    assert not is_blob_id(name)
    for call in (blobs.get(name, BlobInfo.of(b"")), blobs.put(name, b""), blobs.delete(name), blobs.modified(name)):
        with pytest.raises(BlobNotFound):
            await call


async def test_blobs_are_listed_by_folder(blobs: Blobs) -> None:
    before, ids = time.time(), {new_blob_id() for _ in range(20)}
    await asyncio.gather(*(blobs.put(each, b"content") for each in ids))
    listed = [await blobs.list_folder(each) for each in await blobs.folders()]
    assert {each for folder in listed for each in folder} == ids
    assert sum(map(len, listed)) == len(ids)
    assert before - 2 <= await blobs.modified(ids.pop()) <= time.time() + 2


async def test_a_folder_of_blobs_is_private(tmp_path: Path) -> None:
    blobs, blob = Blobs(f"file://{tmp_path}/some blobs", max_bytes=100), new_blob_id()
    await blobs.put(blob, b"content")
    (path,) = (tmp_path / "some blobs").glob(f"*/{blob}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    blobs.close()


async def test_a_writer_that_is_killed_leaves_no_half_blob(tmp_path: Path) -> None:
    """The writer dies between two halves of the content; what it leaves is listed and can be deleted."""
    blob = new_blob_id()
    script = (
        "import asyncio, os, signal, sys\n"
        "from stored_objects.blobs.blobs import Blobs\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(Blobs(sys.argv[1], max_bytes=10**6).put(sys.argv[2], bytes(10**6)))\n"
    )
    url = f"file://{tmp_path}/blobs"
    died = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script, url, blob], check=False)
    assert died.returncode == -signal.SIGKILL
    blobs = Blobs(url, max_bytes=10**6)
    with pytest.raises(BlobNotFound):
        await blobs.get(blob, BlobInfo.of(bytes(10**6)))
    (folder,) = await blobs.folders()
    assert await blobs.list_folder(folder) == [blob]
    assert await blobs.modified(blob) > time.time() - 60
    await blobs.delete(blob)
    assert await blobs.list_folder(folder) == []
    blobs.close()


async def test_a_folder_that_is_a_file_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("")
    blobs = Blobs(f"file://{tmp_path}/blobs", max_bytes=100)
    with pytest.raises(StartupError, match="HEADRACE_BLOBS_URL"):
        await blobs.check()
    with pytest.raises(BlobsUnavailable):
        await blobs.put(new_blob_id(), b"content")
    blobs.close()


def test_an_unknown_file_system_is_refused_at_the_start() -> None:
    with pytest.raises(StartupError, match="nothing://"):
        Blobs("nothing://somewhere", max_bytes=1)


def test_a_derived_id_belongs_to_its_name() -> None:
    assert derived_blob_id("job-1-s2-0") == derived_blob_id("job-1-s2-0") != derived_blob_id("job-1-s2-1")
    assert is_blob_id(derived_blob_id(""))


async def stream_of(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
