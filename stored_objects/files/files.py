"""Files of projects, as OpenAI's Files API has them: stored objects with a name and a purpose, kept until they expire.

A file belongs to its project: all API keys of the project find it, others don't. Its id is that of the stored object
with another prefix.
"""

from __future__ import annotations

import math
import re
import time
import unicodedata
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from enum import StrEnum

from stored_objects.blobs.blobs import PREFIX, is_blob_id
from stored_objects.errors import BlobNotFound, BlobTooLarge
from stored_objects.objects.objects import StoredObjects
from stored_objects.objects.records import ObjectKind, ObjectOwner, ObjectQuery, StoredObject

FILE_PREFIX = "file-"
MAX_NAME = 255
"""Characters of a file name; longer ones are cut off."""
UPLOAD_TIME = 3600.0
"""Seconds that the upload of one file may take."""
BATCH_LIFETIME = 30 * 24 * 3600.0
"""Seconds for which a file of purpose `batch` is kept by default."""
FOREVER = math.inf
"""Seconds for which a file of any other purpose is kept by default: until it is deleted."""


class Purpose(StrEnum):
    """What a file is for, in OpenAI's words. Only batches' own files have the last one."""

    ASSISTANTS = "assistants"
    BATCH = "batch"
    EVALS = "evals"
    USER_DATA = "user_data"
    VISION = "vision"
    BATCH_OUTPUT = "batch_output"


class ProjectFiles:
    """Stores, finds, lists and deletes the files of projects.

    Methods raise `StoreUnavailable` or `BlobsUnavailable` if documents or blobs can't be reached.
    """

    def __init__(self, objects: StoredObjects, *, clock: Callable[[], float] = time.time) -> None:
        self.objects = objects
        self._clock = clock

    @asynccontextmanager
    async def pending(self, owner: ObjectOwner, size: int) -> AsyncIterator[StoredObject]:
        """Reserve quota for a new file of at most `size` bytes, and yield its document for `StoredObjects.write`.

        The block ends with `finish`; an error in it deletes what was written.

        Raises:
            BlobTooLarge: `size` exceeds the largest file.
            StorageQuotaExceeded: the project or organisation would store too much.
        """
        if size > self.objects.file_limits.max_bytes:
            raise BlobTooLarge(size, self.objects.file_limits.max_bytes)
        draft = self.objects.draft(owner, kind=ObjectKind.FILE, size=size, writing_time=UPLOAD_TIME)
        async with self.objects.pending(draft) as pending:
            yield pending

    async def finish(
        self, written: StoredObject, reserved: StoredObject, *, name: str, purpose: Purpose, lifetime: float | None
    ) -> StoredObject:
        """Make a written file available and return its document. `reserved`: what `pending` has yielded.

        `lifetime`: seconds until it expires; `None`: as its purpose has it.
        """
        named = replace(written, name=clean_name(name), purpose=purpose.value)
        lifetime = default_lifetime(purpose) if lifetime is None else lifetime
        return await self.objects.finish(named, lifetime=lifetime, reserved=reserved.size)

    async def find(self, owner: ObjectOwner, file_id: str) -> StoredObject:
        """Return the document of one file of a project, by the file's id.

        Raises:
            BlobNotFound: the project has no such file, or it has expired.
        """
        found = await self.objects.find(owner, blob_id(FILE_PREFIX, file_id))
        if found.kind is not ObjectKind.FILE:
            raise BlobNotFound("this object is no file")
        return found

    async def listed(
        self, owner: ObjectOwner, *, purpose: str | None, after: str | None, limit: int, descending: bool
    ) -> list[StoredObject]:
        """Return the documents of a project's files in order of creation, at most `limit` after the file `after`.

        Raises:
            BlobNotFound: the project has no file `after`.
        """
        last = None if after is None else await self.find(owner, after)
        query = ObjectQuery(
            owner, ObjectKind.FILE, self._clock(), limit, purpose=purpose, after=last, descending=descending
        )
        return await self.objects.documents.listed(query)

    async def delete(self, owner: ObjectOwner, file_id: str) -> None:
        """Delete one file of a project.

        Raises:
            BlobNotFound: the project has no such file.
        """
        await self.objects.delete((await self.find(owner, file_id)).id, owner)


def default_lifetime(purpose: Purpose) -> float:
    """Return the seconds for which a file of this purpose is kept if its upload states no expiry."""
    return BATCH_LIFETIME if purpose is Purpose.BATCH else FOREVER


def public_id(prefix: str, blob: str) -> str:
    """Return the id that clients see of the stored object with id `blob`: its random part after `prefix`."""
    return prefix + blob.removeprefix(PREFIX)


def blob_id(prefix: str, id: str) -> str:
    """Return the id of the stored object that clients know as `id`, which begins with `prefix`.

    Raises:
        BlobNotFound: no object can have this id.
    """
    blob = PREFIX + id.removeprefix(prefix)
    if not id.startswith(prefix) or not is_blob_id(blob):
        raise BlobNotFound("this is no id of a stored object")
    return blob


def clean_name(name: str) -> str:
    """Return a client's file name as one harmless line: without folders and without control and format characters."""
    last = re.split(r"[/\\]", name)[-1]
    shown = "".join(each for each in last if unicodedata.category(each)[0] != "C")
    return shown.strip()[:MAX_NAME] or "file"
