"""Service that stores, reads, keeps and deletes stored objects: writes blob, document and quota in a crash-safe order.

Order of writes, so that a crash between any two leaves nothing that the sweeper can't delete: count the bytes, document
as `PENDING`, bytes, document as `READY`. Deletion goes the other way: document as `DELETING`, bytes, document, count.
An object in parts keeps other objects instead of bytes of its own, as a conversation does (`keep`).
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

import structlog

from auth_billing.errors import StoreUnavailable
from stored_objects.blobs.blobs import BlobInfo, Blobs, is_blob_id, new_blob_id
from stored_objects.errors import BlobNotFound, BlobsUnavailable, BlobTooLarge, UnacceptableMediaType
from stored_objects.objects.metrics import ObjectMetrics
from stored_objects.objects.quota import StorageQuotas
from stored_objects.objects.records import ObjectKind, ObjectOwner, ObjectPart, ObjectState, ObjectStore, StoredObject

LIFETIME = 3600.0
"""Seconds for which an object is stored unless a conversation keeps it."""
PENDING_TIME = 600.0
"""Seconds that writing an object may take; the sweeper deletes what is pending for longer."""
DOWNLOAD = "application/octet-stream"
"""Media type of content of which nothing is assumed."""
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}/[a-z0-9][a-z0-9.+-]{0,63}")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class FileLimits:
    """The largest file in bytes: sent by one request, and uploaded in parts."""

    max_bytes: int = 512 * 2**20
    max_upload_bytes: int = 8192 * 2**20


class StoredObjects:
    """Stores, reads, keeps and deletes objects of owners.

    Methods raise `StoreUnavailable` (of `auth_billing`) or `BlobsUnavailable` if documents or blobs can't be reached.
    """

    def __init__(
        self,
        blobs: Blobs,
        documents: ObjectStore,
        quotas: StorageQuotas,
        metrics: ObjectMetrics,
        file_limits: FileLimits = FileLimits(),
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.blobs = blobs
        self.documents = documents
        self.quotas = quotas
        self.metrics = metrics
        self.file_limits = file_limits
        self._clock = clock

    async def put(
        self,
        owner: ObjectOwner,
        content: bytes,
        *,
        kind: ObjectKind,
        media_type: str,
        lifetime: float = LIFETIME,
        id: str = "",
    ) -> StoredObject:
        """Store `content` as a new object of `owner` for `lifetime` seconds, and return its document.

        `keep` makes it stay longer.

        `id` (`derived_blob_id`) is used unless another process has begun to write that object: then a random one.

        Raises:
            UnacceptableMediaType: `media_type` is not of the form `type/subtype` in lower case.
            BlobTooLarge: the content exceeds the largest size; nothing is stored.
            StorageQuotaExceeded: the owner or organisation would store too much; nothing is stored.
        """
        if len(content) > self.blobs.max_bytes:
            raise BlobTooLarge(len(content), self.blobs.max_bytes)
        draft = self.draft(owner, kind=kind, media_type=media_type, size=len(content), id=id)
        async with self.pending(draft) as pending:
            info = await self.blobs.put(pending.id, content)
            return await self.finish(replace(pending, sha256=info.sha256), lifetime=lifetime)

    def draft(
        self,
        owner: ObjectOwner,
        *,
        kind: ObjectKind,
        media_type: str = DOWNLOAD,
        size: int,
        id: str = "",
        writing_time: float = PENDING_TIME,
    ) -> StoredObject:
        """Return the document of a new object of at most `size` bytes, for `pending`.

        Raises:
            UnacceptableMediaType: `media_type` is not of the form `type/subtype` in lower case.
        """
        if not _MEDIA_TYPE.fullmatch(media_type):
            raise UnacceptableMediaType(f"{media_type!r} is no media type")
        now, who = self._clock(), (owner.organisation, owner.requester)
        return StoredObject(id or new_blob_id(), *who, kind, media_type, size, created=now, expires=now + writing_time)

    @asynccontextmanager
    async def pending(self, draft: StoredObject) -> AsyncIterator[StoredObject]:
        """Reserve quota for a new object and insert its document; yield the document, with another id if its is taken.

        The block writes the bytes and calls `finish`; an error in it deletes what was written.

        Raises:
            StorageQuotaExceeded: the owner or organisation would store too much; nothing is stored.
        """
        pending = await self.begin(draft)
        try:
            yield pending
        except BaseException:
            await self.abandon(pending)
            raise

    async def begin(self, draft: StoredObject) -> StoredObject:
        """Reserve quota for a new object and insert its document, which expires unless `finish` is called before.

        Raises:
            StorageQuotaExceeded: the owner or organisation would store too much; nothing is stored.
        """
        await self.quotas.reserve(draft.owner, draft.own_size)
        if not await self.documents.insert(draft):
            draft = replace(draft, id=new_blob_id())
            await self.documents.insert(draft)
        return draft

    async def write(self, pending: StoredObject, chunks: AsyncIterable[bytes]) -> StoredObject:
        """Write the bytes of a pending object, at most its `size`; return its document with their size and SHA-256.

        Raises:
            BlobTooLarge: there are more bytes.
            BlobsUnavailable: the write failed.
        """
        info = await self.blobs.write(pending.id, chunks, max_bytes=pending.size)
        return replace(pending, size=info.size, sha256=info.sha256)

    async def finish(self, written: StoredObject, *, lifetime: float, reserved: int | None = None) -> StoredObject:
        """Make a written object available for `lifetime` seconds and return its document.

        `reserved`: bytes for which quota was reserved, if the object has fewer.

        Raises:
            BlobsUnavailable: writing took too long, so that the object is being deleted.
        """
        now = self._clock()
        ready = replace(written, state=ObjectState.READY, created=now, expires=now + lifetime)
        if not await self.documents.finish(ready):
            if not ready.in_parts:
                await self.blobs.delete(ready.id)
            raise BlobsUnavailable("the object was deleted while it was written")
        if reserved is not None and reserved > ready.own_size:
            with suppress(StoreUnavailable):  # the count is corrected when it is reached
                await self.quotas.shrink(ready.owner, reserved - ready.own_size)
        self.metrics.stored.labels(ready.kind.value).inc()
        self.metrics.stored_bytes.inc(ready.own_size)
        return ready

    async def join(self, pending: StoredObject, parts: Sequence[ObjectPart], *, lifetime: float) -> StoredObject:
        """Make a pending object in parts available with `parts`, other objects of its owner, as its content.

        If another call has done so, return that object, whose parts may be others.

        Raises:
            BlobNotFound: a part does not exist any more.
            BlobsUnavailable: the object is being deleted.
        """
        whole = replace(pending, parts=list(parts), size=sum(part.size for part in parts))
        try:
            for part in parts:
                await self.keep(part.id, whole.owner, whole.id)
            return await self.finish(whole, lifetime=lifetime)
        except (BlobNotFound, BlobsUnavailable):
            found = await self.documents.find(whole.owner, whole.id)
            if found is not None and found.state is ObjectState.READY:
                return found
            await self.release(whole.owner, whole.id)
            raise

    async def abandon(self, pending: StoredObject) -> bool:
        """Delete a pending object; return false if it is not pending any more. The sweeper completes a failed deletion.

        Does not raise.
        """
        try:
            if not await self.documents.abandon(pending.id, self._clock()):
                return False
            await self.remove(pending)
        except (BlobsUnavailable, StoreUnavailable) as error:
            _log.warning("the sweeper will delete an unfinished object", object=pending.id, reason=str(error))
        return True

    async def find(self, owner: ObjectOwner, id: str) -> StoredObject:
        """Return the document of one available object of `owner`, by id.

        Raises:
            BlobNotFound: the owner has no such object, or it has expired.
        """
        return self._available(id, await self.documents.find(owner, id) if is_blob_id(id) else None)

    async def find_signed(self, id: str) -> StoredObject:
        """Return an available object's document, of any owner, by an id from a verified signed URL (`AddressSigner`).

        Raises:
            BlobNotFound: there is no such object, or it has expired.
        """
        return self._available(id, await self.documents.find_signed(id) if is_blob_id(id) else None)

    async def stream(self, stored: StoredObject) -> AsyncIterator[bytes]:
        """Yield the content of the object `stored` in chunks, the last one of each part after a check of its SHA-256.

        Raises:
            BlobNotFound, BlobsUnavailable: the blob can't be read.
            BlobCorrupt: size or SHA-256 differ from the document's.
        """
        parts = stored.parts if stored.in_parts else [ObjectPart(stored.id, stored.size, stored.sha256)]
        for part in parts:
            async for chunk in self.blobs.stream(part.id, BlobInfo(part.size, part.sha256)):
                yield chunk

    async def get(self, owner: ObjectOwner, id: str) -> bytes:
        """Return the whole content (bytes) of one object of `owner`, checked against its SHA-256.

        Raises:
            BlobNotFound, BlobCorrupt: the owner has no such object, or its content has changed.
        """
        return b"".join([chunk async for chunk in self.stream(await self.find(owner, id))])

    async def keep(self, id: str, owner: ObjectOwner, reference: str) -> None:
        """Exempt one object of `owner` from expiry until `release` gets the same `reference`, the id of a conversation.

        Raises:
            BlobNotFound: the owner has no such object, or it has expired.
        """
        if not is_blob_id(id) or not await self.documents.add_reference(owner, id, reference, self._clock()):
            raise BlobNotFound("there is no such object")

    async def release(self, owner: ObjectOwner, reference: str) -> None:
        """End `keep` for all objects of `owner` kept by the conversation `reference`; unkept ones then expire."""
        await self.documents.remove_reference(owner, reference)

    async def delete(self, id: str, owner: ObjectOwner) -> None:
        """Delete one object of `owner` now, also if conversations keep it; the sweeper completes a failed deletion.

        Raises:
            BlobNotFound: the owner has no such object.
        """
        now = self._clock()
        found = await self.documents.find(owner, id) if is_blob_id(id) else None
        if found is None or not await self.documents.expire(owner, id, now):
            raise BlobNotFound("there is no such object")
        try:
            await self.remove(found)
        except (BlobsUnavailable, StoreUnavailable) as error:
            _log.warning("the sweeper will complete a deletion", object=id, reason=str(error))

    async def remove(self, stored: StoredObject) -> bool:
        """Delete blob, document and quota count of one expired object.

        Return false if it is kept again or another process does.

        Raises:
            BlobsUnavailable, StoreUnavailable: the deletion is incomplete; the next sweep repeats it.
        """
        if not await self.documents.begin_deletion(stored.id, self._clock()):
            return False
        if stored.in_parts:
            await self._remove_parts(stored)
        else:
            await self.blobs.delete(stored.id)
        if not await self.documents.remove(stored.id):
            return False
        await self.quotas.release(stored.owner, stored.own_size)
        return True

    async def _remove_parts(self, stored: StoredObject) -> None:
        await self.documents.remove_reference(stored.owner, stored.id)
        for part in await self.documents.parts_of(stored.owner, stored.id):
            if part.state is ObjectState.PENDING:
                await self.documents.abandon(part.id, self._clock())
            else:
                await self.documents.expire(stored.owner, part.id, self._clock())
            await self.remove(part)

    def close(self) -> None:
        """Wait for running reads and writes of blobs, then end their threads; call it at shutdown."""
        self.blobs.close()

    def _available(self, id: str, found: StoredObject | None) -> StoredObject:
        if found is None or not found.is_available(self._clock()):
            raise BlobNotFound(f"there is no object {id[:64]!r}")
        return found
