"""Records of stored objects, and the port of their store.

Every object belongs to an `ObjectOwner`, and lookups are by owner, so objects of other owners are never found; only the
port of signed addresses and the sweeper's find objects by id. Times are Unix seconds. Each method of the port raises
`StoreUnavailable` when the store does not answer in time, and may be repeated then.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True)
class ObjectOwner:
    """The owner of a stored object: a user, service account or API key (`Principal.requester`) in an organisation."""

    organisation: str
    requester: str


class ObjectKind(StrEnum):
    """What a stored object is for people."""

    IMAGE = "image"
    FILE = "file"


class ObjectState(StrEnum):
    """The state of a stored object; its bytes are complete in `READY` only."""

    PENDING = "pending"
    READY = "ready"
    DELETING = "deleting"


@dataclass(frozen=True)
class StoredObject:
    """The document of a stored object; its bytes are the blob with the same id."""

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

    @property
    def owner(self) -> ObjectOwner:
        """The owner of the object."""
        return ObjectOwner(self.organisation, self.requester)

    def is_available(self, now: float) -> bool:
        """Whether the object can be read: complete, and neither expired nor being deleted."""
        return self.state is ObjectState.READY and (self.kept > 0 or self.expires > now)


class ObjectStore(Protocol):
    """Store of the documents of stored objects."""

    async def insert(self, record: StoredObject) -> bool:
        """Store the document of a new, pending object; false, and no change, if there is one with its id."""
        ...

    async def finish(self, id: str, sha256: str, expires: float) -> bool:
        """Turn a pending object into a ready one; false if the sweeper has taken it meanwhile."""
        ...

    async def find(self, owner: ObjectOwner, id: str) -> StoredObject | None:
        """Return the owner's object, in any state."""
        ...

    async def find_signed(self, id: str) -> StoredObject | None:
        """Return the object of any owner, for a caller that has proved the right to read it by a signature."""
        ...

    async def add_reference(self, owner: ObjectOwner, id: str, reference: str, now: float) -> bool:
        """Add a conversation to an available object's references; true if it is among them now."""
        ...

    async def remove_reference(self, owner: ObjectOwner, reference: str) -> None:
        """Remove a conversation from the references of all objects of the owner."""
        ...

    async def expire(self, owner: ObjectOwner, id: str, now: float) -> bool:
        """Begin the deletion of the owner's object and remove its references; false if it is not ready."""
        ...

    async def expired(self, now: float, limit: int) -> list[StoredObject]:
        """Return up to `limit` objects without references that expired before `now`, the oldest first."""
        ...

    async def begin_deletion(self, id: str, now: float) -> bool:
        """Mark an expired object without references as being deleted, so that it can't be read or kept any more."""
        ...

    async def remove(self, id: str) -> bool:
        """Remove the document of an object that is being deleted; false if another process has done so."""
        ...

    async def known(self, ids: Collection[str]) -> set[str]:
        """Return those of `ids` that have a document."""
        ...

    async def stored_bytes(self, organisation: str, requester: str | None) -> int:
        """Return the sum of sizes, and the number of documents times `RECORD_BYTES`, of one owner or organisation."""
        ...


RECORD_BYTES = 1024
"""Bytes counted for each object besides its content: its document and index entries."""
