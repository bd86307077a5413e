"""What is stored, and the ports to where it is stored. Knows no MongoDB: `store/` implements the ports.

Times are Unix seconds. Each method of a port raises `StoreUnavailable` when the store does not answer in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from router.messages import UsageRecord


@dataclass(frozen=True)
class Organisation:
    """Who pays: the tenant of a job."""

    id: str
    name: str
    created: float


@dataclass(frozen=True)
class Project:
    """A part of an organisation that has keys of its own."""

    id: str
    organisation: str
    name: str
    created: float


@dataclass(frozen=True)
class ApiKeyRecord:
    """What is known of an API key; the secret itself is not."""

    key_id: str
    digest: bytes = field(repr=False)
    last4: str
    organisation: str
    project: str
    name: str
    created: float
    expires: float | None = None
    revoked: float | None = None

    def is_live(self, now: float) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or now < self.expires)


class Insertion(Enum):
    """What became of a record that may have been stored before."""

    NEW = "new"
    REPEATED = "repeated"
    """The same record is there already: as good as new."""
    CONFLICTING = "conflicting"
    """Another record with the same identity is there; it was left as it is."""


class ApiKeyStore(Protocol):
    """Where API keys are."""

    async def find(self, key_id: str) -> ApiKeyRecord | None:
        """The key with this id."""
        ...

    async def add(self, record: ApiKeyRecord) -> None:
        """Store a new key, durably."""
        ...

    async def revoke(self, project: str, now: float) -> int:
        """Revoke every live key of a project; how many there were."""
        ...


class AccountStore(Protocol):
    """Where organisations and projects are."""

    async def ensure_organisation(self, organisation: Organisation) -> None:
        """Store it unless one with its id is there."""
        ...

    async def ensure_project(self, project: Project) -> None:
        """Store it unless one with its id is there."""
        ...


class UsageStore(Protocol):
    """Where usage records are: never changed once written."""

    async def add_new(self, records: Sequence[UsageRecord]) -> list[bool]:
        """Store those that are not there yet, durably, in one write; says of each whether it was stored by this.

        One that was not is to be asked about by `add`.

        Raises:
            RecordRefused: the store can't hold one of them; the others may have been stored.
        """
        ...

    async def add(self, record: UsageRecord) -> Insertion:
        """Store what one attempt at one job used, durably, once.

        Raises:
            RecordRefused: the store can't hold it.
        """
        ...
