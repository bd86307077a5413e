"""Service that stores, reads, keeps and deletes stored objects: writes blob, document and quota in a crash-safe order.

Order of writes, so that a crash between any two leaves nothing that the sweeper can't delete: count the bytes, document
as `PENDING`, bytes, document as `READY`. Deletion goes the other way: document as `DELETING`, bytes, document, count.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import structlog

from auth_billing.errors import StoreUnavailable
from stored_objects.blobs import BlobInfo, Blobs, is_blob_id, new_blob_id
from stored_objects.errors import BlobNotFound, BlobsUnavailable, BlobTooLarge, UnacceptableMediaType
from stored_objects.metrics import ObjectMetrics
from stored_objects.quota import StorageQuotas
from stored_objects.records import ObjectKind, ObjectOwner, ObjectState, ObjectStore, StoredObject

LIFETIME = 3600.0
"""Seconds for which an object is stored unless a conversation keeps it."""
PENDING_TIME = 600.0
"""Seconds that writing an object may take; the sweeper deletes what is pending for longer."""
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}/[a-z0-9][a-z0-9.+-]{0,63}")

_log = structlog.get_logger(__name__)


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
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.blobs = blobs
        self.documents = documents
        self.quotas = quotas
        self.metrics = metrics
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
        if not _MEDIA_TYPE.fullmatch(media_type):
            raise UnacceptableMediaType(f"{media_type!r} is no media type")
        if len(content) > self.blobs.max_bytes:
            raise BlobTooLarge(len(content), self.blobs.max_bytes)
        now, id = self._clock(), id or new_blob_id()
        who, size = (owner.organisation, owner.requester), len(content)
        pending = StoredObject(id, *who, kind, media_type, size, created=now, expires=now + PENDING_TIME)
        await self.quotas.reserve(owner, size)
        if not await self.documents.insert(pending):
            pending = replace(pending, id=(id := new_blob_id()))
            await self.documents.insert(pending)
        info = await self.blobs.put(id, content)
        ready = replace(pending, sha256=info.sha256, state=ObjectState.READY, expires=self._clock() + lifetime)
        if not await self.documents.finish(id, info.sha256, ready.expires):
            await self.blobs.delete(id)
            raise BlobsUnavailable(f"writing took longer than {PENDING_TIME:.0f} s")
        self.metrics.stored.labels(kind.value).inc()
        self.metrics.stored_bytes.inc(size)
        return ready

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

    def stream(self, stored: StoredObject) -> AsyncIterator[bytes]:
        """Yield the content of the object `stored` in chunks, the last one after a check of its SHA-256.

        Raises:
            BlobNotFound, BlobsUnavailable: the blob can't be read.
            BlobCorrupt: size or SHA-256 differ from the document's.
        """
        return self.blobs.stream(stored.id, BlobInfo(stored.size, stored.sha256))

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
        await self.blobs.delete(stored.id)
        if not await self.documents.remove(stored.id):
            return False
        await self.quotas.release(stored.owner, stored.size)
        return True

    def close(self) -> None:
        """Wait for running reads and writes of blobs, then end their threads; call it at shutdown."""
        self.blobs.close()

    def _available(self, id: str, found: StoredObject | None) -> StoredObject:
        if found is None or not found.is_available(self._clock()):
            raise BlobNotFound(f"there is no object {id[:64]!r}")
        return found
