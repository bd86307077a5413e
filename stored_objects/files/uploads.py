"""Uploads of large files in parts, as OpenAI's Uploads API has them; an upload is the pending document of its file.

Each part is a stored object that expires with the upload. The finished file keeps its parts and has no bytes of its
own, so that nothing is copied.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from stored_objects.blobs.blobs import PREFIX
from stored_objects.errors import BlobNotFound, BlobTooLarge, UnacceptableUpload
from stored_objects.files.files import ProjectFiles, Purpose, blob_id, clean_name, default_lifetime
from stored_objects.objects.records import ObjectKind, ObjectOwner, ObjectPart, ObjectState, StoredObject

UPLOAD_PREFIX, PART_PREFIX = "upload_", "part_"
UPLOAD_LIFETIME = 3600.0
"""Seconds after its creation in which an upload must be completed."""
MAX_PART_BYTES = 64 * 2**20
"""Bytes of the largest part."""
MAX_PARTS = 1024
"""Parts of one upload."""


class Uploads:
    """Creates, completes and cancels uploads of projects' files.

    Methods raise `StoreUnavailable` or `BlobsUnavailable` if documents or blobs can't be reached.
    """

    def __init__(self, files: ProjectFiles, *, clock: Callable[[], float] = time.time) -> None:
        self._objects = files.objects
        self._clock = clock

    async def create(
        self, owner: ObjectOwner, *, name: str, purpose: Purpose, size: int, lifetime: float | None
    ) -> StoredObject:
        """Create an upload of a file of `size` bytes, and return its document. Its parts reserve their quota.

        `lifetime`: seconds for which the file will be kept; `None`: as its purpose has it.

        Raises:
            BlobTooLarge: the file would exceed the largest size.
            StorageQuotaExceeded: the project or organisation stores too much.
        """
        if size > (most := self._objects.file_limits.max_upload_bytes):
            raise BlobTooLarge(size, most)
        draft = self._objects.draft(owner, kind=ObjectKind.FILE, size=size, writing_time=UPLOAD_LIFETIME)
        lifetime = default_lifetime(purpose) if lifetime is None else lifetime
        upload = replace(draft, name=clean_name(name), purpose=purpose.value, in_parts=True, lifetime=lifetime)
        return await self._objects.begin(upload)

    async def find(self, owner: ObjectOwner, upload_id: str) -> StoredObject:
        """Return the document of one upload of a project that can still get parts.

        Raises:
            BlobNotFound: there is none with this id: it never existed, is another project's, has expired or has ended.
        """
        found = await self._objects.documents.find(owner, blob_id(UPLOAD_PREFIX, upload_id))
        if found is None or not _is_open(found, self._clock()):
            raise BlobNotFound("there is no such upload")
        return found

    async def add_part(
        self, owner: ObjectOwner, upload_id: str, size: int, chunks: AsyncIterable[bytes]
    ) -> StoredObject:
        """Store a part of an upload from `chunks` of at most `size` bytes together, and return its document.

        Raises:
            BlobNotFound: the project has no such upload.
            BlobTooLarge: the part exceeds `size` or the largest part.
            UnacceptableUpload: the part is empty, or the upload has too many.
            StorageQuotaExceeded: the project or organisation would store too much.
        """
        if size > MAX_PART_BYTES:
            raise BlobTooLarge(size, MAX_PART_BYTES)
        upload = await self.find(owner, upload_id)
        if len(await self._objects.documents.parts_of(owner, upload.id)) >= MAX_PARTS:
            raise UnacceptableUpload("data", f"An upload has {MAX_PARTS} parts at most.")
        left = upload.expires - self._clock()
        draft = self._objects.draft(owner, kind=ObjectKind.PART, size=size, writing_time=left)
        async with self._objects.pending(replace(draft, part_of=upload.id)) as pending:
            written = await self._objects.write(pending, chunks)
            if not written.size:
                raise UnacceptableUpload("data", "A part has at least one byte.")
            left = max(1.0, upload.expires - self._clock())
            return await self._objects.finish(written, lifetime=left, reserved=pending.size)

    async def complete(
        self, owner: ObjectOwner, upload_id: str, part_ids: Sequence[str], md5: str | None
    ) -> StoredObject:
        """Make the file of an upload out of the parts with ids `part_ids`, in this order, and return its document.

        A repeated call with the same parts returns the same file.

        Raises:
            BlobNotFound: the project has no such upload.
            UnacceptableUpload: a part is unknown or repeated, or their bytes are not those that were announced.
        """
        blob = blob_id(UPLOAD_PREFIX, upload_id)
        wanted = [PREFIX + each.removeprefix(PART_PREFIX) for each in part_ids]
        upload = await self._objects.documents.find(owner, blob)
        if upload is not None and upload.in_parts and upload.is_available(self._clock()):
            return _with_parts(upload, wanted)
        if upload is None or not _is_open(upload, self._clock()):
            raise BlobNotFound("there is no such upload")
        stored = {each.id: each for each in await self._objects.documents.parts_of(owner, upload.id)}
        parts = [stored[each] for each in wanted if each in stored and stored[each].is_available(self._clock())]
        if len(parts) != len(wanted) or len(set(wanted)) != len(wanted):
            raise UnacceptableUpload("part_ids", "Each id must name another part of this upload.")
        if (size := sum(part.size for part in parts)) != upload.size:
            raise UnacceptableUpload("part_ids", f"The parts have {size} bytes, the upload was to have {upload.size}.")
        file = replace(upload, parts=[ObjectPart(part.id, part.size, part.sha256) for part in parts])
        if md5 is not None and md5.lower() != await self._md5(file):
            raise UnacceptableUpload("md5", "The parts have another MD5 checksum.")
        file = _with_parts(await self._objects.join(upload, file.parts, lifetime=upload.lifetime), wanted)
        for part_id in stored.keys() - set(wanted):
            with suppress(BlobNotFound):
                await self._objects.delete(part_id, owner)
        return file

    async def cancel(self, owner: ObjectOwner, upload_id: str) -> StoredObject:
        """Cancel an upload and delete its parts; return its document.

        Raises:
            BlobNotFound: the project has no such upload.
        """
        upload = await self.find(owner, upload_id)
        if not await self._objects.abandon(upload):
            raise BlobNotFound("the upload has just ended")
        return upload

    async def _md5(self, file: StoredObject) -> str:
        digest = hashlib.md5(usedforsecurity=False)
        async for chunk in self._objects.stream(file):
            await asyncio.to_thread(digest.update, chunk)
        return digest.hexdigest()


def _with_parts(file: StoredObject, wanted: Sequence[str]) -> StoredObject:
    """Return a completed file if it has the parts `wanted`.

    Raises:
        UnacceptableUpload: it has others.
    """
    if [part.id for part in file.parts] != wanted:
        raise UnacceptableUpload("part_ids", "This upload was completed with other parts.")
    return file


def _is_open(found: StoredObject, now: float) -> bool:
    return found.in_parts and found.state is ObjectState.PENDING and found.expires > now
