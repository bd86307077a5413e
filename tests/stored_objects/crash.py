"""Child processes that are killed (SIGKILL) right after their n-th step of storing or deleting an object."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

from auth_billing.store.connection import StoreConnection
from stored_objects.blobs.blobs import Blobs
from stored_objects.files.files import ProjectFiles, Purpose, public_id
from stored_objects.files.uploads import PART_PREFIX, UPLOAD_PREFIX, Uploads
from stored_objects.objects.objects import LIFETIME, StoredObjects
from stored_objects.objects.records import ObjectKind, ObjectOwner
from stored_objects.objects.sweeper import ObjectSweeper
from stored_objects.store.byte_counts import MongoByteCounts
from stored_objects.store.objects import MongoObjectStore
from tests.fakes.stored_objects import stored_objects

CONTENT = b"\x89PNG" + bytes(100_000)
OWNER = ObjectOwner("org-1", "user-ada")
PROJECT = ObjectOwner.of_project("org-1", "proj-1")
START = 1_700_000_000.0
_STEPS = frozenset(
    {
        "add",
        "add_reference",
        "begin",
        "insert",
        "finish",
        "put",
        "write",
        "expire",
        "begin_deletion",
        "delete",
        "remove",
    }
)


class _Steps:
    """Counts the steps of all wrapped ports, and kills the process after the last one."""

    def __init__(self, last: int) -> None:
        self._left = last

    def done(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap(self, port: Any) -> Any:
        steps = self

        class Dying:
            def __getattr__(self, name: str) -> Any:
                method: Callable[..., Awaitable[Any]] = getattr(port, name)
                if name not in _STEPS:
                    return method

                async def step(*arguments: Any, **options: Any) -> Any:
                    result = await method(*arguments, **options)
                    steps.done()
                    return result

                return step

        return Dying()


def put_and_die(mongodb_url: str, blobs_url: str, last: int, object_id: str = "") -> None:
    """Store an object: counts of owner and organisation, document, draft of the bytes, bytes, document."""

    async def put(objects: StoredObjects) -> None:
        await objects.put(OWNER, CONTENT, kind=ObjectKind.IMAGE, media_type="image/png")

    _run(put, mongodb_url, blobs_url, last, START)


def delete_and_die(mongodb_url: str, blobs_url: str, last: int, object_id: str) -> None:
    """Delete an object as its owner: mark (twice), bytes, document, counts."""

    async def delete(objects: StoredObjects) -> None:
        await objects.delete(object_id, OWNER)

    _run(delete, mongodb_url, blobs_url, last, START)


def sweep_and_die(mongodb_url: str, blobs_url: str, last: int, object_id: str) -> None:
    """Sweep an expired object: mark, bytes, document, counts."""

    async def sweep(objects: StoredObjects) -> None:
        await ObjectSweeper(objects, clock=lambda: START + LIFETIME).sweep()

    _run(sweep, mongodb_url, blobs_url, last, START + LIFETIME)


def upload_and_die(mongodb_url: str, blobs_url: str, last: int, object_id: str = "") -> None:
    """Upload a file in two parts: the upload, each part as an object of its own, both parts kept, the file."""

    async def upload(objects: StoredObjects) -> None:
        uploads = Uploads(ProjectFiles(objects, clock=lambda: START), clock=lambda: START)
        size = 2 * len(CONTENT)
        created = await uploads.create(PROJECT, name="x", purpose=Purpose.BATCH, size=size, lifetime=7200.0)
        id = public_id(UPLOAD_PREFIX, created.id)
        parts = [await uploads.add_part(PROJECT, id, len(CONTENT), _content()) for _ in range(2)]
        await uploads.complete(PROJECT, id, [public_id(PART_PREFIX, part.id) for part in parts], None)

    _run(upload, mongodb_url, blobs_url, last, START)


async def _content() -> AsyncIterator[bytes]:
    yield CONTENT


def _run(
    action: Callable[[StoredObjects], Awaitable[None]], mongodb_url: str, blobs_url: str, last: int, now: float
) -> None:
    steps, sync = _Steps(last), os.fsync
    synced: list[int] = []

    def sync_and_count(descriptor: int) -> None:
        sync(descriptor)
        synced.append(descriptor)
        if len(synced) == 1:
            steps.done()  # the draft is written, not renamed yet

    async def run() -> None:
        connection = StoreConnection(mongodb_url, operation_ms=20_000)
        blobs = cast(Blobs, steps.wrap(Blobs(blobs_url, max_bytes=10**6)))
        documents = steps.wrap(MongoObjectStore(connection))
        counts = steps.wrap(MongoByteCounts(connection))
        await action(stored_objects(documents, counts, blobs, clock=lambda: now))
        connection.close()

    os.fsync = sync_and_count  # type: ignore[assignment]
    asyncio.run(run())
