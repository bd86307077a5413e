"""Service that keeps vector stores of projects: creates, lists, changes, expires and deletes them and their files.

Imports of files are `stored_objects/vector_stores/imports.py`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import structlog

from auth_billing.errors import NotPermitted, StoreUnavailable
from documents.search.filters import AttributeValue
from stored_objects.errors import BlobNotFound, DocumentNotFound, StorageQuotaExceeded
from stored_objects.files.files import ProjectFiles
from stored_objects.objects.records import RECORD_BYTES
from stored_objects.project_documents.project_documents import DAY, TICK
from stored_objects.project_documents.quota import DocumentQuota
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.vector_stores.access import ORGANISATION, Reader, StoreScope
from stored_objects.vector_stores.passages import PassageStore
from stored_objects.vector_stores.record_store import VectorStoreStore
from stored_objects.vector_stores.records import (
    BATCH_PREFIX,
    NEVER,
    STORE_PREFIX,
    Chunking,
    FileBatch,
    FileCounts,
    FileState,
    PageQuery,
    VectorStore,
    VectorStoreFile,
    place_of,
)

ACTIVITY_INTERVAL = 3600.0
"""Seconds between two stored times of the last search in a vector store."""
DELETION_BATCH = 100
"""Files of a deleted vector store that are removed together."""

_log = structlog.get_logger(__name__)

Item = TypeVar("Item")


@dataclass(frozen=True)
class NewFile:
    """A file to be added to a vector store: its id and name in the project, and what the client says of it."""

    file: str
    name: str
    chunking: Chunking
    attributes: Mapping[str, AttributeValue]
    key_id: str = ""
    """Id of the API key that adds the file and as which it is embedded."""
    expires: float = NEVER
    """Time at which the project's file expires."""
    person: str = ""
    """Id of the person who has uploaded the file for this vector store, and as whom it is embedded."""


@dataclass(frozen=True)
class Page(Generic[Item]):
    """One page of a list."""

    items: list[Item]
    has_more: bool
    """Whether further items follow."""


class VectorStores:
    """Keeps the vector stores of projects. Methods raise `StoreUnavailable` if the store does not answer.

    A vector store that has expired is found, with its expiry, until it is deleted; it can't be searched or changed.
    """

    def __init__(
        self,
        records: VectorStoreStore,
        passages: PassageStore,
        quota: DocumentQuota,
        files: ProjectFiles,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.records = records
        self.passages = passages
        self.quota = quota
        self._contents = files
        self._clock = clock

    async def create(
        self,
        owner: ProjectOwner,
        *,
        embedder: str,
        name: str = "",
        metadata: Mapping[str, str] | None = None,
        expiry_days: int | None = None,
        files: Sequence[NewFile] = (),
        scope: StoreScope = StoreScope.PROJECT,
        person: str = "",
        id: str = "",
    ) -> VectorStore:
        """Store a new vector store of `owner`, or of a person in this project, with files, whose import begins.

        Return it. `id`: a new id (`new_store_id`) that the caller knows already; empty: any.

        Raises:
            StorageQuotaExceeded: the project or its organisation would store too much; nothing is stored.
        """
        now = self._clock()
        created = VectorStore(
            id or new_store_id(),
            owner.organisation,
            owner.project,
            created=now,
            last_active=now,
            embedder=embedder,
            name=name,
            metadata=dict(metadata or {}),
            expiry_days=expiry_days,
            expires=expiry(now, expiry_days),
            person=person if scope is StoreScope.PERSON else "",
            shared_with=[ORGANISATION] if scope is StoreScope.ORGANISATION else [],
        )
        await self.quota.reserve(owner, created.record_size)
        await self.records.insert(created)
        if files:
            try:
                await self.add(created, files)
            except StorageQuotaExceeded:
                await self.delete(created)
                raise
        return created

    async def find(self, reader: Reader, id: str) -> VectorStore:
        """Return one vector store that `reader` may read.

        Raises:
            DocumentNotFound: there is none with this id, or the reader may not read it.
        """
        found = await self.records.find(reader, id)
        if found is None:
            raise DocumentNotFound(id)
        return found

    async def find_to_change(self, reader: Reader, id: str) -> VectorStore:
        """Return one vector store that `reader` may change.

        Raises:
            DocumentNotFound: there is none with this id, or the reader may not read it.
            NotPermitted: the reader may read it, but not change it.
        """
        found = await self.find(reader, id)
        if not reader.may_change(found):
            raise NotPermitted(f"the vector store {id} is another's")
        return found

    async def share(self, store: VectorStore, grantee: str) -> None:
        """Let `grantee` read a vector store.

        Raises:
            DocumentNotFound: it was deleted meanwhile.
        """
        if grantee != store.owner_grantee and not await self.records.share(store.id, grantee):
            raise DocumentNotFound(store.id)

    async def unshare(self, store: VectorStore, grantee: str) -> None:
        """Take the right to read a vector store away from `grantee`; its owner keeps it."""
        await self.records.unshare(store.id, grantee)

    async def page(
        self, reader: Reader, query: PageQuery, *, after: str | None = None, before: str | None = None
    ) -> Page[VectorStore]:
        """Return the page of vector stores that `reader` may read between those with the ids `after` and `before`.

        Raises:
            DocumentNotFound: the reader finds no vector store with one of these ids.
        """
        places = [None if id is None else place_of(await self.find(reader, id)) for id in (after, before)]
        bounded = replace(query, limit=query.limit + 1, after=places[0], before=places[1])
        return _page(await self.records.page(reader, bounded), bounded)

    async def counts(self, stores: Collection[VectorStore]) -> dict[str, FileCounts]:
        """Return the counts of the files of each vector store, by the vector store's id."""
        return await self.records.counts([each.id for each in stores]) if stores else {}

    async def update(
        self, store: VectorStore, *, name: str, metadata: Mapping[str, str], expiry_days: int | None
    ) -> VectorStore:
        """Replace name, metadata and days of expiry of a vector store, which is active now, and return it.

        Raises:
            DocumentNotFound: it was deleted meanwhile.
            StorageQuotaExceeded: the project or its organisation would store too much; nothing is changed.
        """
        changed = replace(store, name=name, metadata=dict(metadata), expiry_days=expiry_days)
        return await self._activate(changed, max(changed.record_size - store.record_size, 0))

    async def searched(self, store: VectorStore) -> None:
        """Note that a vector store was searched, by which its expiry moves: once in `ACTIVITY_INTERVAL`."""
        if self._clock() - store.last_active >= ACTIVITY_INTERVAL:
            await self._activate(store)

    async def delete(self, store: VectorStore) -> None:
        """Delete a vector store, its files, and passages that no other vector store of the organisation uses.

        It is hidden and expires first, so nothing of it is found from then on, and the sweeper finishes a deletion that
        is cut off, or which the store does not take: this is logged.
        """
        await self.records.hide(store.id, self._clock())
        try:
            await self.remove(store)
        except StoreUnavailable as error:
            _log.warning("the sweeper will finish a deletion", vector_store=store.id, reason=str(error))

    async def remove(self, store: VectorStore) -> None:
        """Remove what a hidden vector store has, without tombstones; its record goes last."""
        while files := await self.records.remaining(store.id, DELETION_BATCH):
            for each in files:
                await self._delete_content(each)
            await self.passages.release({each.reference: each.passages for each in files if each.passages})
            removed = await self.records.remove_files(files)
            # An import may have kept passages again before its file was removed.
            await self.passages.release({each.reference: each.passages for each in removed if each.passages})
            await self.quota.release(store.owner, sum(each.size + each.record_size for each in removed))
        batches = await self.records.remove_batches(store.id)
        record = await self.records.remove(store.id)
        size = batches * RECORD_BYTES + (0 if record is None else record.record_size)
        await self.quota.release(store.owner, size)

    async def add(self, store: VectorStore, files: Sequence[NewFile], batch: FileBatch | None = None) -> None:
        """Add files, at least one, to a vector store, with `batch`; their import begins when a process claims them.

        A file that is in the vector store already stays as it is, or is imported again if its import had failed.

        Raises:
            DocumentNotFound: the vector store was deleted meanwhile.
            StorageQuotaExceeded: the project or its organisation would store too much; nothing is added.
        """
        for before in await self.records.find_files(store.id, [each.file for each in files]):
            if not before.state.needs_passages:
                await self.release(before)
        now = self._clock()
        records = [
            VectorStoreFile(
                store.id,
                each.file,
                store.organisation,
                store.project,
                created=now + number * TICK,
                chunking=each.chunking,
                key_id=each.key_id,
                person=each.person,
                name=each.name,
                attributes=dict(each.attributes),
                expires=each.expires,
                batch="" if batch is None else batch.id,
            )
            for number, each in enumerate(files)
        ]
        size = sum(each.record_size for each in records)
        await self.quota.reserve(store.owner, size + (0 if batch is None else RECORD_BYTES))
        if batch is not None:
            await self.records.insert_batch(batch)
        await self.quota.release(store.owner, size - await self.records.add_files(records))
        try:
            await self._activate(store)
        except DocumentNotFound:  # deleted meanwhile, perhaps before the files were added
            await self.delete(store)
            raise

    async def add_batch(self, store: VectorStore, files: Sequence[NewFile]) -> FileBatch:
        """Add files, at least one, to a vector store as a batch, and return the batch.

        Raises:
            DocumentNotFound: the vector store was deleted meanwhile.
            StorageQuotaExceeded: the project or its organisation would store too much; nothing is added.
        """
        id = f"{BATCH_PREFIX}{uuid.uuid4().hex}"
        batch = FileBatch(id, store.id, store.organisation, store.project, self._clock())
        await self.add(store, files, batch)
        return batch

    async def find_batch(self, store: VectorStore, id: str) -> FileBatch:
        """Return one batch of files of a vector store.

        Raises:
            DocumentNotFound: the vector store has none with this id.
        """
        found = await self.records.find_batch(store.owner, store.id, id)
        if found is None:
            raise DocumentNotFound(id)
        return found

    async def cancel_batch(self, batch: FileBatch) -> FileBatch:
        """Cancel the files of a batch that are in progress, and return the batch."""
        await self.records.cancel_batch(batch)
        return replace(batch, cancelled=True)

    async def find_file(self, store: VectorStore, file: str) -> VectorStoreFile:
        """Return one file of a vector store.

        Raises:
            DocumentNotFound: the vector store has no file with this id, or it has expired.
        """
        found = await self.records.find_file(store.owner, store.id, file)
        if found is None or found.expires <= self._clock():
            raise DocumentNotFound(file)
        return found

    async def page_files(
        self,
        store: VectorStore,
        query: PageQuery,
        *,
        after: str | None = None,
        before: str | None = None,
        state: FileState | None = None,
        batch: str | None = None,
    ) -> Page[VectorStoreFile]:
        """Return the page of files of a vector store, or of a batch of it, between two files, in one or any state.

        Raises:
            DocumentNotFound: the vector store has no file `after` or `before`.
        """
        places = [None if id is None else place_of(await self.find_file(store, id)) for id in (after, before)]
        bounded = replace(query, limit=query.limit + 1, after=places[0], before=places[1])
        return _page(await self.records.page_files(store.id, bounded, state=state, batch=batch), bounded)

    async def set_attributes(
        self, store: VectorStore, file: str, attributes: Mapping[str, AttributeValue]
    ) -> VectorStoreFile:
        """Replace the attributes of one file of a vector store, and return the file.

        Raises:
            DocumentNotFound: the vector store has no file with this id.
            StorageQuotaExceeded: the project or its organisation would store too much; nothing is changed.
        """
        while True:
            found = await self.find_file(store, file)
            changed = replace(found, attributes=dict(attributes), revision=found.revision + 1)
            reserved = max(changed.record_size - found.record_size, 0)
            await self.quota.reserve(store.owner, reserved)
            if await self.records.set_attributes(found, attributes):
                await self.quota.release(store.owner, max(found.record_size - changed.record_size, 0))
                await self.records.number([changed])
                return changed
            await self.quota.release(store.owner, reserved)  # another call has changed or deleted it meanwhile

    async def delete_everywhere(self, owner: ProjectOwner, file: str) -> None:
        """Delete one of a project's own files from all vector stores, with passages unless another file needs them."""
        for each in await self.records.of_file(owner, file):
            if not each.person:
                await self.erase(each)

    async def erase(self, file: VectorStoreFile) -> None:
        """Delete one file, number the deletion, and give back what it took; no effect if it is deleted already.

        The content of a file that a person uploaded for the vector store is deleted too.
        """
        await self._delete_content(file)
        before = await self.records.delete_file(file, self._clock())
        if before is None:
            return
        await self.quota.release(before.owner, before.record_size)
        deleted = replace(before, state=FileState.DELETED, revision=before.revision + 1)
        await self.records.number([deleted])
        await self.release(deleted)

    async def release(self, file: VectorStoreFile) -> None:
        """Give back what a deleted, failed or cancelled file took, and erase passages that no other file has."""
        if not file.passages:
            return
        await self.passages.release({file.reference: file.passages})
        if await self.records.release_passages(file):
            await self.quota.release(file.owner, file.size)

    async def _delete_content(self, file: VectorStoreFile) -> None:
        if file.person:
            with suppress(BlobNotFound):
                await self._contents.delete(file.content_owner, file.file)

    async def _activate(self, store: VectorStore, growth: int = 0) -> VectorStore:
        """Store a vector store that is active now, and takes at most `growth` more bytes."""
        now = self._clock()
        active = replace(store, last_active=now, expires=expiry(now, store.expiry_days))
        await self.quota.reserve(store.owner, growth)
        before = await self.records.update(active)
        await self.quota.release(store.owner, growth + (before or active).record_size - active.record_size)
        if before is None:
            raise DocumentNotFound(store.id)
        return active


def new_store_id() -> str:
    """Return a new id of a vector store."""
    return f"{STORE_PREFIX}{uuid.uuid4().hex}"


def expiry(last_active: float, days: int | None) -> float:
    """Return the time at which a vector store expires that was last active at a time."""
    return NEVER if days is None else last_active + days * DAY


def _page(found: list[Item], one_more: PageQuery) -> Page[Item]:
    """Return the page that a query for one item more than the page has found."""
    has_more = len(found) == one_more.limit
    shown = found[1:] if one_more.is_backward and has_more else found[: one_more.limit - 1]
    return Page(shown, has_more)
