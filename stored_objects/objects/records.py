"""Documents of stored objects (owner, size, expiry, state), and the interface of the store that keeps them.

Every object belongs to an `ObjectOwner`, and lookups are by owner, so objects of other owners are never found; only the
port of signed addresses and the sweeper's find objects by id. Times are Unix seconds. Each method of the port raises
`StoreUnavailable` when the store does not answer in time, and may be repeated then.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

_PROJECT = "project:"


@dataclass(frozen=True)
class ObjectOwner:
    """The owner of a stored object in an organisation: a user, service account or API key, or a project."""

    organisation: str
    requester: str
    """`Principal.requester`; of an object that a project owns, `project:` and the project's id."""

    @staticmethod
    def of_project(organisation: str, project: str) -> ObjectOwner:
        """Return the owner of the files of one project, which all API keys of the project share."""
        return ObjectOwner(organisation, f"{_PROJECT}{project}")

    @property
    def is_project(self) -> bool:
        """Whether the owner is a project."""
        return is_project(self.requester)


def is_project(requester: str) -> bool:
    """Return whether the `requester` of an `ObjectOwner` is a project."""
    return requester.startswith(_PROJECT)


def project_id(requester: str) -> str:
    """Return the id of the project that is the `requester` of an `ObjectOwner`."""
    return requester.removeprefix(_PROJECT)


class ObjectKind(StrEnum):
    """Purpose of a stored object as users see it: an image, a file, or a part of a file."""

    IMAGE = "image"
    FILE = "file"
    PART = "part"


class ObjectState(StrEnum):
    """The state of a stored object; its bytes are complete in `READY` only."""

    PENDING = "pending"
    READY = "ready"
    DELETING = "deleting"


@dataclass(frozen=True)
class ObjectPart:
    """One part of an object's content: id, size in bytes and SHA-256 of the stored object that has these bytes."""

    id: str
    size: int
    sha256: str


@dataclass(frozen=True)
class StoredObject:
    """The document of a stored object; its bytes are the blob with the same id, or those of its parts."""

    id: str
    organisation: str
    requester: str
    kind: ObjectKind
    media_type: str
    size: int
    """Bytes of the content."""
    created: float
    expires: float
    """When the object may be deleted, unless a conversation refers to it."""
    sha256: str = ""
    """64 hexadecimal digits; empty while the object is pending."""
    state: ObjectState = ObjectState.PENDING
    references: list[str] = field(default_factory=list)
    """Ids of the conversations that keep the object."""
    kept: int = 0
    """Number of `references`."""
    name: str = ""
    """File name that the owner gave; never a path."""
    purpose: str = ""
    """What the owner says that a file is for, such as `batch`."""
    lifetime: float = 0.0
    """Seconds for which the file of an upload in parts is kept once it is complete."""
    part_of: str = ""
    """Id of the object that this one is a part of; empty: none."""
    in_parts: bool = False
    """Whether the content is that of `parts`, which this object keeps, instead of a blob."""
    parts: list[ObjectPart] = field(default_factory=list)
    """Parts of the content in order; empty while the object is pending."""

    @property
    def owner(self) -> ObjectOwner:
        """Owner of the object: a person, service account, API key or project in an organisation."""
        return ObjectOwner(self.organisation, self.requester)

    @property
    def own_size(self) -> int:
        """Bytes that count towards quotas: those of the object's own blob, since parts are counted themselves."""
        return 0 if self.in_parts else self.size

    def is_available(self, now: float) -> bool:
        """Return whether the object can be read at Unix time `now`: complete, neither expired nor being deleted."""
        return self.state is ObjectState.READY and (self.kept > 0 or self.expires > now)


@dataclass(frozen=True)
class ObjectQuery:
    """Selects a page of one owner's available objects of one kind, ordered by time of creation."""

    owner: ObjectOwner
    kind: ObjectKind
    now: float
    """Unix time at which the objects must not have expired."""
    limit: int
    purpose: str | None = None
    """Purpose of the objects; `None`: any."""
    after: StoredObject | None = None
    """Last object of the previous page."""
    descending: bool = True
    """Newest first."""


class ObjectStore(Protocol):
    """Interface of the store of stored objects' documents."""

    async def insert(self, record: StoredObject) -> bool:
        """Insert the document of a new object in state pending; return false, without a change, if its id is taken."""
        ...

    async def finish(self, record: StoredObject) -> bool:
        """Replace the document of one pending object by that of the ready object `record`.

        Return false, without a change, if it is not pending any more: it is being deleted.
        """
        ...

    async def abandon(self, id: str, now: float) -> bool:
        """Mark one pending object as being deleted; return false if it is not pending."""
        ...

    async def find(self, owner: ObjectOwner, id: str) -> StoredObject | None:
        """Return the document of one object of `owner` in any state; `None` if there is none with this id."""
        ...

    async def listed(self, query: ObjectQuery) -> list[StoredObject]:
        """Return the documents of the available objects that match `query`, in its order, at most `query.limit`."""
        ...

    async def parts_of(self, owner: ObjectOwner, id: str) -> list[StoredObject]:
        """Return the documents of the objects of `owner` that are part of the object `id`, in any state."""
        ...

    async def find_signed(self, id: str) -> StoredObject | None:
        """Return the document of one object of any owner, or `None`.

        Only for callers that have verified its signed URL.
        """
        ...

    async def add_reference(self, owner: ObjectOwner, id: str, reference: str, now: float) -> bool:
        """Add the conversation `reference` to those that keep one available object; return whether it is among them."""
        ...

    async def remove_reference(self, owner: ObjectOwner, reference: str) -> None:
        """Remove the conversation `reference` from those that keep objects, in all objects of the owner."""
        ...

    async def expire(self, owner: ObjectOwner, id: str, now: float) -> bool:
        """Mark one ready object of `owner` as being deleted and kept by no conversation.

        Return false if it is not ready.
        """
        ...

    async def expired(self, now: float, limit: int) -> list[StoredObject]:
        """Return up to `limit` documents of objects expired before `now` that no conversation keeps, oldest first."""
        ...

    async def begin_deletion(self, id: str, now: float) -> bool:
        """Mark one expired, unkept object as being deleted, so that nothing reads or keeps it.

        Return false if the object is not expired, or a conversation keeps it.
        """
        ...

    async def remove(self, id: str) -> bool:
        """Remove the document of one object that is being deleted; return false if another process has removed it."""
        ...

    async def known(self, ids: Collection[str]) -> set[str]:
        """Return the subset of `ids` (blob ids) that have a document; blobs without one are orphans."""
        ...

    async def stored_bytes(self, organisation: str, requester: str | None) -> int:
        """Return the number of bytes that an owner, or if `requester` is `None` an organisation, stores.

        The sum of the objects' own sizes, plus `RECORD_BYTES` for each document.
        """
        ...


RECORD_BYTES = 1024
"""Bytes counted for each object besides its content: its document and index entries."""
