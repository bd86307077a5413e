"""Interface of the store of vector stores, their files and batches of files.

Times are Unix seconds. Each method raises `StoreUnavailable` when the store does not answer in time, and may be
repeated then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from documents.search.filters import AttributeValue
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.vector_stores.access import Reader
from stored_objects.vector_stores.records import (
    FileBatch,
    FileCounts,
    FileState,
    ImportFailure,
    PageQuery,
    VectorStore,
    VectorStoreFile,
)


class VectorStoreStore(Protocol):
    """Interface of the store of vector stores, their files and batches. Lookups for clients name reader or owner."""

    async def insert(self, record: VectorStore) -> None:
        """Insert a new vector store; repeatable."""
        ...

    async def find(self, reader: Reader, id: str) -> VectorStore | None:
        """Return one vector store that `reader` may read, expired or not; `None` if there is none or it is deleted."""
        ...

    async def page(self, reader: Reader, query: PageQuery) -> list[VectorStore]:
        """Return a page of the vector stores that `reader` may read."""
        ...

    async def page_of_others(self, organisation: str, members: Collection[str], query: PageQuery) -> list[VectorStore]:
        """Return a page of the vector stores of an organisation that are those of people other than `members`."""
        ...

    async def share(self, id: str, grantee: str) -> bool:
        """Let `grantee` read a vector store of any owner; return false if it is gone or being deleted."""
        ...

    async def unshare(self, id: str, grantee: str) -> None:
        """Remove `grantee` from those that a vector store of any owner is shared with."""
        ...

    async def update(self, record: VectorStore) -> VectorStore | None:
        """Store name, metadata, `last_active` and expiry of a vector store.

        Return the vector store as it was; `None` if it is gone or being deleted.
        """
        ...

    async def remove(self, id: str) -> VectorStore | None:
        """Remove the record of a vector store, of any owner, that has no files; return it, `None` if it is gone."""
        ...

    async def hide(self, id: str, now: float) -> None:
        """Have a vector store, of any owner, expire `now` and be hidden; no effect if it is gone."""
        ...

    async def expired(self, now: float, limit: int) -> list[VectorStore]:
        """Return up to `limit` vector stores of all owners that expired before `now`."""
        ...

    async def find_any(self, ids: Collection[str]) -> list[VectorStore]:
        """Return the vector stores, of any owner, that have one of these ids."""
        ...

    async def counts(self, vector_stores: Collection[str]) -> dict[str, FileCounts]:
        """Return the counts of files of each of these vector stores, by id."""
        ...

    async def batch_counts(self, batch: FileBatch) -> FileCounts:
        """Return the counts of the files of one batch."""
        ...

    async def insert_batch(self, batch: FileBatch) -> None:
        """Insert a batch of files; repeatable."""
        ...

    async def find_batch(self, owner: ProjectOwner, vector_store: str, id: str) -> FileBatch | None:
        """Return one batch of files of a vector store of `owner`; `None` if there is none with this id."""
        ...

    async def cancel_batch(self, batch: FileBatch) -> None:
        """Mark a batch, and its files that are in progress, as cancelled."""
        ...

    async def add_files(self, files: Sequence[VectorStoreFile]) -> int:
        """Insert files in progress, at least one, of one vector store.

        A file that is in the vector store already stays as it is, unless it ended without being completed and names no
        passages: then its import begins again.

        Return by how many bytes the sum of `record_size` has grown.
        """
        ...

    async def find_files(self, vector_store: str, files: Collection[str]) -> list[VectorStoreFile]:
        """Return those files and tombstones of a vector store that have one of the ids `files`, in any order."""
        ...

    async def of_file(self, owner: ProjectOwner, file: str) -> list[VectorStoreFile]:
        """Return one file of `owner` as all vector stores have it, without tombstones."""
        ...

    async def find_file(self, owner: ProjectOwner, vector_store: str, file: str) -> VectorStoreFile | None:
        """Return one file of a vector store of `owner`; `None` if it has none with this id or a tombstone."""
        ...

    async def page_files(
        self, vector_store: str, query: PageQuery, *, state: FileState | None = None, batch: str | None = None
    ) -> list[VectorStoreFile]:
        """Return a page of the files of a vector store, or of a batch of it, in one or in any state."""
        ...

    async def expired_files(self, now: float, limit: int) -> list[VectorStoreFile]:
        """Return up to `limit` files of all vector stores that expired before `now`."""
        ...

    async def set_attributes(self, file: VectorStoreFile, attributes: Mapping[str, AttributeValue]) -> bool:
        """Replace the attributes of a file, unnumbered; return false, without a change, if it has another revision."""
        ...

    async def delete_file(self, file: VectorStoreFile, now: float) -> VectorStoreFile | None:
        """Make a tombstone of a file in any revision, unnumbered, which names its passages until they are released.

        Return the file as it was; `None` if it is a tombstone or gone.
        """
        ...

    async def release_passages(self, file: VectorStoreFile) -> bool:
        """Remove id and size of the passages from a file that does not need them; return false if it names others."""
        ...

    async def waiting(self, now: float, limit: int, passed_over: Collection[str] = ()) -> list[VectorStoreFile]:
        """Return up to `limit` files in progress without a live lease, the oldest first.

        Those of the organisations `passed_over` are left out.
        """
        ...

    async def claim(self, file: VectorStoreFile, runner: str, now: float, lease: float) -> VectorStoreFile | None:
        """Give a file in progress without a live lease, as it was read, to `runner` until the time `lease`.

        Return it; `None`, without a change, if another process holds it or it has changed since it was read.
        """
        ...

    async def is_held(self, file: VectorStoreFile) -> bool:
        """Return whether `file.runner` holds the lease of the file, which is in progress."""
        ...

    async def renew(self, file: VectorStoreFile, lease: float) -> bool:
        """Set the end of the lease of `file.runner`; return false if it has lost it or the file is not in progress.

        A time in the past gives the file back to other processes.
        """
        ...

    async def set_passages(self, file: VectorStoreFile, passages: str, size: int) -> bool:
        """Store the id and the counted size of the passages of a file whose lease `file.runner` holds.

        Return false, without a change, if it has lost the lease or the file is not in progress.
        """
        ...

    async def complete(self, files: Sequence[VectorStoreFile], warning: str = "") -> list[bool]:
        """Complete, unnumbered, files in progress whose leases their `runner` holds, also those it has completed.

        Return for each, in order, whether it is completed; false for any other.
        """
        ...

    async def fail(self, file: VectorStoreFile, failure: ImportFailure) -> bool:
        """Fail a file in progress whose lease `file.runner` holds; return false for any other."""
        ...

    async def changed_files(self, vector_store: str, since: int) -> list[VectorStoreFile]:
        """Return all files and tombstones of a vector store whose change number is higher than `since`."""
        ...

    async def unnumbered(self, limit: int) -> list[VectorStoreFile]:
        """Return up to `limit` files and tombstones of all vector stores whose last change has no number."""
        ...

    async def number(self, files: Sequence[VectorStoreFile]) -> None:
        """Give the last change of each file its vector store's next number, unless it has another revision meanwhile.

        Files of one vector store get the same number.
        """
        ...

    async def unreleased(self, limit: int) -> list[VectorStoreFile]:
        """Return up to `limit` files of all vector stores that name passages that they do not need any more.

        These are tombstones, and failed and cancelled files.
        """
        ...

    async def forget(self, deleted_before: float, limit: int) -> int:
        """Remove up to `limit` numbered tombstones made before a time, which name no passages; return their number."""
        ...

    async def remaining(self, vector_store: str, limit: int) -> list[VectorStoreFile]:
        """Return up to `limit` files and tombstones of a vector store that is being deleted."""
        ...

    async def remove_files(self, files: Sequence[VectorStoreFile]) -> list[VectorStoreFile]:
        """Remove files without a tombstone; return those that this call has removed.

        A file stays that got other passages, or another revision, since it was read.
        """
        ...

    async def remove_batches(self, vector_store: str) -> int:
        """Remove all batches of a vector store that is being deleted; return their number."""
        ...

    async def stored_bytes(self, organisation: str, requester: str | None) -> int:
        """Return the bytes that count for an owner's records here, or (`requester` is `None`) an organisation's."""
        ...
