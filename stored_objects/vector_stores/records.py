"""Records of vector stores, their files and batches of files, and the interface of their store.

    VectorStore  1 ── n  VectorStoreFile  n ── 1  PassageSet (`stored_objects/vector_stores/passages.py`)

A file of a vector store is imported by the one process that holds its lease. What a file has to say to an index is its
state, attributes and passages; each change of them gets the vector store's next change number, so that an index asks
for the files whose number is higher than the one it is up to date with. A file is written first, with the number
`UNNUMBERED` and its next revision, then numbered: an index that has read the vector store's number before it reads the
files misses none of them, and applies one twice at most. A removed file stays as a tombstone (`DELETED`) for a time.

Times are Unix seconds. Each method of the port raises `StoreUnavailable` when the store does not answer in time, and
may be repeated then.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol

from stored_objects.documents.records import ProjectOwner
from stored_objects.records import RECORD_BYTES

STORE_PREFIX, BATCH_PREFIX = "vs_", "vsfb_"
"""Prefixes of the ids of vector stores and of batches of their files."""
UNNUMBERED = 2**62
"""Change number of a file whose last change has no number yet; it is higher than all numbers."""
NEVER = math.inf
"""Expiry of a vector store or file that is kept until it is deleted."""

AttributeValue = str | float | bool
Order = Literal["asc", "desc"]


class FileState(StrEnum):
    """State of a file in a vector store, in OpenAI's words; `DELETED` is that of a tombstone."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DELETED = "deleted"

    @property
    def needs_passages(self) -> bool:
        """Whether a file in this state keeps its passages."""
        return self in (FileState.IN_PROGRESS, FileState.COMPLETED)


@dataclass(frozen=True)
class Chunking:
    """How the text of a file is cut into passages, in tokens of the embedder."""

    max_tokens: int
    overlap_tokens: int
    auto: bool = False
    """Whether the client left the choice to the installation."""


@dataclass(frozen=True)
class ImportFailure:
    """Why a file was not imported: a code of OpenAI's API, such as `unsupported_file`, and a sentence for people."""

    code: str
    message: str


@dataclass(frozen=True)
class VectorStore:
    """A vector store of a project."""

    id: str
    organisation: str
    project: str
    created: float
    last_active: float
    """When the vector store was created, changed or, to the hour, searched."""
    embedder: str
    """Model that computes the vectors of all passages and questions."""
    name: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    expiry_days: int | None = None
    """Days after `last_active` at which the vector store expires; `None`: it does not."""
    expires: float = NEVER
    change: int = 0
    """Highest change number of its files."""
    forgotten: int = 0
    """Highest change number of a tombstone that was removed: an index that is less up to date must be built anew."""

    @property
    def owner(self) -> ProjectOwner:
        """Owner of the vector store: its project."""
        return ProjectOwner(self.organisation, self.project)

    @property
    def record_size(self) -> int:
        """Bytes that count towards quotas for the vector store without its files."""
        return RECORD_BYTES + _size(self.name, *self.metadata, *self.metadata.values())


@dataclass(frozen=True)
class VectorStoreFile:
    """A file of a vector store, under import or imported; its content is the project's file with the id `file`."""

    vector_store: str
    file: str
    organisation: str
    project: str
    created: float
    chunking: Chunking
    key_id: str = ""
    """Id of the API key that added the file and as which it is embedded."""
    name: str = ""
    """File name, for people."""
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    expires: float = NEVER
    """Time at which the project's file expires: from then on searches don't find it, and it is about to be deleted."""
    batch: str = ""
    """Id of the batch that the file was added with; empty: it was added alone."""
    state: FileState = FileState.IN_PROGRESS
    failure: ImportFailure | None = None
    warning: str = ""
    """What of a completed file was not read, such as scanned pages: a sentence for people."""
    size: int = 0
    """Bytes that are counted for the file's passages in the quota of the project."""
    passages: str = ""
    """Id of the set of the file's passages; empty until the import has read the file."""
    revision: int = 0
    """Number of changes of what an index has of the file."""
    change: int = 0
    """Number of the last of these changes in its vector store, or `UNNUMBERED`; 0: an index has nothing of the file."""
    runner: str = ""
    """Id of the process that imports the file."""
    lease: float = 0.0
    """Time until which only `runner` may import the file."""
    additions: int = 1
    """Number of times that the file was added: again after its import failed or it was deleted."""
    claims: int = 0
    """Number of times that a process has begun or resumed the import."""
    deleted: float = 0.0
    """When a tombstone was made; 0 for a file."""

    @property
    def id(self) -> str:
        """Key of the file in its vector store."""
        return file_key(self.vector_store, self.file)

    @property
    def reference(self) -> str:
        """Name by which the set of the file's passages refers to the file, another one for each addition."""
        return f"{self.id}#{self.additions}"

    @property
    def owner(self) -> ProjectOwner:
        """Owner of the file: the project of its vector store."""
        return ProjectOwner(self.organisation, self.project)

    @property
    def record_size(self) -> int:
        """Bytes that count towards quotas for the file besides its passages; none for a tombstone."""
        if self.state is FileState.DELETED:
            return 0
        return RECORD_BYTES + _size(self.name, *self.attributes, *map(str, self.attributes.values()))


def _size(*texts: str) -> int:
    return sum(len(each.encode()) for each in texts)


def file_key(vector_store: str, file: str) -> str:
    """Return the key of a file in a vector store."""
    return f"{vector_store}/{file}"


@dataclass(frozen=True)
class FileBatch:
    """Files that were added to a vector store by one request; their `batch` names it."""

    id: str
    vector_store: str
    organisation: str
    project: str
    created: float
    cancelled: bool = False


@dataclass(frozen=True)
class FileCounts:
    """Number of files of a vector store or batch in each state, and the bytes that are counted for them."""

    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    size: int = 0

    @property
    def total(self) -> int:
        """Number of files in all states."""
        return self.in_progress + self.completed + self.failed + self.cancelled


@dataclass(frozen=True)
class Place:
    """Place of a record in a list that is ordered by time of creation."""

    created: float
    id: str
    """Id of the vector store, or the key of the file in it."""


@dataclass(frozen=True)
class PageQuery:
    """Which page of a list to return: at most `limit` records in `order`, between two places of it.

    With `before` alone the page ends there, else it begins with the first record or after `after`.
    """

    limit: int
    order: Order = "desc"
    after: Place | None = None
    before: Place | None = None

    @property
    def is_backward(self) -> bool:
        """Whether the page is the one that ends before a place, instead of one that begins at a place."""
        return self.before is not None and self.after is None


class VectorStoreStore(Protocol):
    """Interface of the store of vector stores, their files and batches. Lookups for clients name the owner."""

    async def insert(self, record: VectorStore) -> None:
        """Insert a new vector store; repeatable."""
        ...

    async def find(self, owner: ProjectOwner, id: str) -> VectorStore | None:
        """Return one vector store of `owner`, expired or not; `None` if there is none with this id."""
        ...

    async def page(self, owner: ProjectOwner, query: PageQuery) -> list[VectorStore]:
        """Return a page of the vector stores of `owner`."""
        ...

    async def update(self, record: VectorStore) -> VectorStore | None:
        """Store name, metadata, `last_active` and expiry of a vector store.

        Return the vector store as it was; `None` if it is gone.
        """
        ...

    async def remove(self, id: str) -> VectorStore | None:
        """Remove the record of a vector store, of any owner, that has no files; return it, `None` if it is gone."""
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

    async def claim(
        self, runner: str, now: float, lease: float, passed_over: Collection[str] = ()
    ) -> VectorStoreFile | None:
        """Give one file in progress without a live lease to `runner` until the time `lease`, the oldest first.

        Return it; `None` if there is none but of the organisations `passed_over`.
        """
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

    async def complete(self, file: VectorStoreFile, warning: str = "") -> bool:
        """Complete, unnumbered, a file in progress whose lease `file.runner` holds; return false for any other."""
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

    async def number(self, file: VectorStoreFile) -> None:
        """Give the last change of a file its vector store's next number, unless it has another revision meanwhile."""
        ...

    async def unreleased(self, limit: int) -> list[VectorStoreFile]:
        """Return up to `limit` files of all vector stores that name passages that they do not need any more.

        These are tombstones, and failed and cancelled files.
        """
        ...

    async def forget(self, deleted_before: float, limit: int) -> int:
        """Remove up to `limit` numbered tombstones made before a time, which name no passages; return their number."""
        ...

    async def remove_remains(self, vector_store: str) -> int:
        """Remove all tombstones and batches of a vector store that is being deleted; return the number of batches."""
        ...

    async def stored_bytes(self, organisation: str, requester: str | None) -> int:
        """Return the bytes that count for an owner's records here, or (`requester` is `None`) an organisation's."""
        ...
