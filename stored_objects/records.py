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


@dataclass(frozen=True)
class ObjectOwner:
    """The owner of a stored object: a user, service account or API key (`Principal.requester`) in an organisation."""

    organisation: str
    requester: str


class ObjectKind(StrEnum):
    """Purpose of a stored object as users see it: an image or a file."""

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
        """Owner of the object: a person, service account or API key in an organisation."""
        return ObjectOwner(self.organisation, self.requester)

    def is_available(self, now: float) -> bool:
        """Return whether the object can be read at Unix time `now`: complete, neither expired nor being deleted."""
        return self.state is ObjectState.READY and (self.kept > 0 or self.expires > now)


class ObjectStore(Protocol):
    """Interface of the store of stored objects' documents."""

    async def insert(self, record: StoredObject) -> bool:
        """Insert the document of a new object in state pending; return false, without a change, if its id is taken."""
        ...

    async def finish(self, id: str, sha256: str, expires: float) -> bool:
        """Mark one pending object ready, with SHA-256 and expiry.

        Return false if the sweeper has begun to delete it.
        """
        ...

    async def find(self, owner: ObjectOwner, id: str) -> StoredObject | None:
        """Return the document of one object of `owner` in any state; `None` if there is none with this id."""
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

        The sum of the objects' sizes, plus `RECORD_BYTES` for each document.
        """
        ...


RECORD_BYTES = 1024
"""Bytes counted for each object besides its content: its document and index entries."""
