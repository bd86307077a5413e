"""Records of vector stores, their files and batches of files.

    VectorStore  1 ── n  VectorStoreFile  n ── 1  PassageSet (`stored_objects/vector_stores/passages.py`)

A file of a vector store is imported by the one process that holds its lease. What a file has to say to an index is its
state, attributes and passages; each change of them gets the vector store's next change number, so that an index asks
for the files whose number is higher than the one it is up to date with. A file is written first, with the number
`UNNUMBERED` and its next revision, then numbered: an index that has read the vector store's number before it reads the
files misses none of them, and applies one twice at most. A removed file stays as a tombstone (`DELETED`) for a time.

Times are Unix seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from documents.search.filters import AttributeValue
from stored_objects.objects.records import RECORD_BYTES, ObjectOwner
from stored_objects.project_documents.records import Order, ProjectOwner
from stored_objects.vector_stores.access import person_grantee, project_grantee

STORE_PREFIX, BATCH_PREFIX = "vs_", "vsfb_"
"""Prefixes of the ids of vector stores and of batches of their files."""
UNNUMBERED = 2**62
"""Change number of a file whose last change has no number yet; it is higher than all numbers."""
NEVER = math.inf
"""Expiry of a vector store or file that is kept until it is deleted."""


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
    """Sizes by which the text of a file is cut into passages, in tokens of the embedder."""

    max_tokens: int
    overlap_tokens: int
    auto: bool = False
    """Whether the client left the choice to the installation."""


@dataclass(frozen=True)
class ImportFailure:
    """Reason for a failed import: a code of OpenAI's API, such as `unsupported_file`, and a sentence for people."""

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
    person: str = ""
    """Id of the person whose vector store it is; empty: it is the project's."""
    shared_with: list[str] = field(default_factory=list)
    """Grantees of those who read the vector store beside its owner."""
    deleted: bool = False
    """Whether the vector store is being deleted: it is hidden, and does not change any more."""

    @property
    def owner(self) -> ProjectOwner:
        """Project of the vector store, which its files count for."""
        return ProjectOwner(self.organisation, self.project)

    @property
    def record_size(self) -> int:
        """Bytes that count towards quotas for the vector store without its files."""
        return RECORD_BYTES + _size(self.name, *self.metadata, *self.metadata.values())

    @property
    def owner_grantee(self) -> str:
        """Grantee of the person or the project whose vector store it is."""
        return person_grantee(self.person) if self.person else project_grantee(self.project)

    @property
    def readers(self) -> list[str]:
        """Grantees of all who read the vector store."""
        return [self.owner_grantee, *self.shared_with]


@dataclass(frozen=True)
class VectorStoreFile:
    """A file of a vector store, under import or imported; its content is the file with the id `file`."""

    vector_store: str
    file: str
    organisation: str
    project: str
    created: float
    chunking: Chunking
    key_id: str = ""
    """Id of the API key that added the file and as which it is embedded; empty: a person uploaded it."""
    person: str = ""
    """Id of the person who uploaded the file for this vector store, in which its content is kept and deleted."""
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
    def content_owner(self) -> ObjectOwner:
        """Owner of the file's content: the person who uploaded it for the vector store, else the project."""
        return ObjectOwner(self.organisation, self.person) if self.person else self.owner.quota_owner

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


def place_of(record: VectorStore | VectorStoreFile) -> Place:
    """Return the place of a vector store, or of a file in its vector store, in lists."""
    return Place(record.created, record.id)


@dataclass(frozen=True)
class PageQuery:
    """A query for one page of a list: at most `limit` records in `order`, between two places of it.

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
