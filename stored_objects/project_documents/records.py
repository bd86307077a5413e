"""Records of the documents that projects keep, and the interface of the stores that hold one kind of them each.

Every method names the owner, so documents of other projects are never found. Times are Unix seconds. Each method of
the port raises `StoreUnavailable` when the store does not answer in time, and may be repeated then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from auth_billing.access.principal import Principal
from stored_objects.objects.records import RECORD_BYTES, ObjectOwner

Order = Literal["asc", "desc"]
PAGE_BYTES = 8 * 2**20
"""Bytes of content at which a page of documents ends, so that none is too large for the memory of a process."""


@dataclass(frozen=True)
class ProjectOwner:
    """The owner of a document: a project in an organisation, whose API keys all share it."""

    organisation: str
    project: str
    """Id of the project; "" for callers of the organisation that belong to none."""

    @classmethod
    def of(cls, principal: Principal) -> ProjectOwner:
        """Return the owner of what `principal` stores: the project that the caller's API key belongs to."""
        return cls(principal.tenant, principal.project)

    @property
    def quota_owner(self) -> ObjectOwner:
        """Owner whose storage quota counts the project's documents: that of its files."""
        return ObjectOwner.of_project(self.organisation, self.project)


@dataclass(frozen=True)
class ProjectDocument:
    """A document of one kind that a project keeps until it expires or is deleted."""

    id: str
    organisation: str
    project: str
    created: float
    """Time of creation, by which lists are ordered."""
    expires: float
    content: bytes
    """The object as JSON, without its metadata."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Pairs that the client attached; a key has no control characters."""
    model: str = ""
    """Model that answered, by which lists can be filtered; "" if the document has none."""
    parent: str = ""
    """Id of the document that this one is an item of; "" if it is none."""

    @property
    def owner(self) -> ProjectOwner:
        """Owner of the document: its project and organisation."""
        return ProjectOwner(self.organisation, self.project)

    @property
    def size(self) -> int:
        """Bytes that count towards quotas: content, metadata, and the record itself."""
        metadata = sum(len(text.encode()) for pair in self.metadata.items() for text in pair)
        return len(self.content) + metadata + RECORD_BYTES


@dataclass(frozen=True)
class ErasedDocuments:
    """Documents of one owner that were erased at once."""

    owner: ProjectOwner
    number: int
    size: int
    """Bytes that were counted for them."""


@dataclass(frozen=True)
class DocumentQuery:
    """A query for one page of a project's documents, in an order and with filters."""

    limit: int
    order: Order = "asc"
    """Order of the times of creation."""
    after: ProjectDocument | None = None
    """Document that the page follows; `None`: the page is the first one."""
    model: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Pairs that each of the documents must have."""
    parent: str = ""
    """Id of the document whose items are listed."""


class DocumentStore(Protocol):
    """Interface of the store of one kind of project documents. `now` excludes documents that have expired."""

    async def insert(self, documents: Sequence[ProjectDocument]) -> None:
        """Insert new documents, at least one; repeatable, for a document that is stored already is not changed."""
        ...

    async def find(self, owner: ProjectOwner, id: str, now: float) -> ProjectDocument | None:
        """Return one document of `owner`; `None` if there is none with this id."""
        ...

    async def find_many(self, owner: ProjectOwner, ids: Sequence[str], now: float) -> list[ProjectDocument]:
        """Return those documents of `owner` that have one of these `ids`, in any order."""
        ...

    async def page(self, owner: ProjectOwner, query: DocumentQuery, now: float) -> list[ProjectDocument]:
        """Return the documents of `owner` that match `query`, in its order, at most `query.limit`.

        Of two or more documents, the last is the first one with which they have more than `PAGE_BYTES`.
        """
        ...

    async def set_metadata(self, document: ProjectDocument, size: int, now: float) -> bool:
        """Replace the stored metadata and the counted size, but not the content, of a document by those of `document`.

        Return false, without a change, if it is gone or `size` bytes are not what is counted for it.
        """
        ...

    async def renew(self, owner: ProjectOwner, id: str, expires: float) -> None:
        """Set the expiry of one document of `owner` and of its items."""
        ...

    async def delete(self, owner: ProjectOwner, id: str) -> int | None:
        """Erase one document of `owner`; return the bytes that were counted for it, `None` if there is none."""
        ...

    async def delete_items(self, owner: ProjectOwner, parent: str) -> int:
        """Erase the items of one document of `owner`; return the bytes that were counted for them."""
        ...

    async def delete_expired(self, now: float, limit: int) -> list[ErasedDocuments]:
        """Erase up to `limit` documents of any owner that expired before `now`; return them by owner."""
        ...

    async def stored_bytes(self, organisation: str, requester: str | None) -> int:
        """Return the bytes that count for an owner's documents here, or (`requester` is `None`) an organisation's.

        `requester` is that of `ProjectOwner.quota_owner`; owners that are no projects have no documents.
        """
        ...
