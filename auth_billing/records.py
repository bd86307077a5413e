"""Stored records of organisations, projects, API keys, usage and idempotency keys, and the ports of their stores.

Times are Unix seconds. Each method of a port raises `StoreUnavailable` when the store does not answer in time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from auth_billing.keys.scopes import ADMIN_SCOPES, PROJECT_SCOPES, Scope
from router.messages import KeySet, Usage, UsageRecord


@dataclass(frozen=True)
class Organisation:
    """An organisation: the tenant of jobs and the owner of a balance."""

    id: str
    name: str
    created: float


@dataclass(frozen=True)
class Project:
    """A part of an organisation with its own API keys."""

    id: str
    organisation: str
    name: str
    created: float
    archived: float | None = None
    """When it was archived; `None`: in use."""


@dataclass(frozen=True)
class ApiKeyRecord:
    """Stored form of an API key, without its secret."""

    key_id: str
    digest: bytes = field(repr=False)
    last4: str
    organisation: str
    project: str
    name: str
    created: float
    expires: float | None = None
    revoked: float | None = None
    scopes: frozenset[Scope] | None = None
    """Its scopes; `None`: all that its kind of key may have (as in records that predate the field)."""
    models: frozenset[str] | None = None
    """Models that it may request, by any of their names; `None`: all."""
    user: str = ""
    """Id of its user or service account; empty: none, made by the operator."""
    last_used: float | None = None

    def is_in(self, keys: KeySet) -> bool:
        """Whether the key is in the set `keys`."""
        return (
            keys.key in ("", self.key_id)
            and keys.organisation in ("", self.organisation)
            and keys.project in ("", self.project)
            and keys.user in ("", self.user)
            and (self.is_admin or not keys.admin_only)
        )

    @property
    def is_admin(self) -> bool:
        """Whether it is an organisation's admin key: for administration, not for inference."""
        return not self.project

    @property
    def rights(self) -> frozenset[Scope]:
        """Effective scopes: its own, restricted to those of its kind of key."""
        possible = ADMIN_SCOPES if self.is_admin else PROJECT_SCOPES
        return possible if self.scopes is None else possible & self.scopes

    def is_live(self, now: float) -> bool:
        """Whether it is neither revoked nor expired at `now`."""
        return self.revoked is None and (self.expires is None or now < self.expires)


@dataclass(frozen=True)
class KeptAnswer:
    """Stored answer to a request with an idempotency key. `body` is `None` if it was too large to store."""

    status: int
    headers: dict[str, str]
    body: bytes | None = field(repr=False)


@dataclass(frozen=True)
class IdempotencyRecord:
    """A used idempotency key and the state of its request.

    `attempt` holds the claim until `lease`, which it renews; an answered request has no lease (0).
    """

    id: str
    fingerprint: str
    attempt: str
    lease: float
    expires: float
    answer: KeptAnswer | None = None


class Insertion(Enum):
    """Result of inserting a record that may exist already."""

    NEW = "new"
    REPEATED = "repeated"
    """An equal record exists: as good as new."""
    CONFLICTING = "conflicting"
    """A different record with the same identity exists; it was left unchanged."""


class ApiKeyStore(Protocol):
    """Store of API keys."""

    async def find(self, key_id: str) -> ApiKeyRecord | None:
        """Return the key with this id."""
        ...

    async def add(self, record: ApiKeyRecord) -> None:
        """Store a new key durably."""
        ...

    async def unrevoked(self, organisation: str, project: str) -> list[ApiKeyRecord]:
        """Return the unrevoked keys of a project (empty: the organisation's admin keys), newest first."""
        ...

    async def rename(self, key_id: str, name: str) -> None:
        """Change the key's name."""
        ...

    async def expire(self, key_id: str, at: float) -> None:
        """Set the key's expiry to `at`, unless it is earlier already."""
        ...

    async def used(self, uses: Mapping[str, float]) -> None:
        """Store times of last use by key id, in one write, which may be lost."""
        ...

    async def revoke(self, keys: KeySet, now: float) -> int:
        """Revoke the unrevoked keys of the set and return their number. A set without criteria matches no key."""
        ...


class AccountStore(Protocol):
    """Store of organisations and projects."""

    async def ensure_organisation(self, organisation: Organisation) -> None:
        """Store it unless its id exists."""
        ...

    async def ensure_project(self, project: Project) -> None:
        """Store it unless its id exists."""
        ...

    async def find_organisation(self, organisation: str) -> Organisation | None:
        """Return the organisation with this id."""
        ...

    async def projects(self, organisation: str) -> list[Project]:
        """Return all projects of an organisation, oldest first."""
        ...

    async def find_project(self, organisation: str, project: str) -> Project | None:
        """Return the organisation's project with this id."""
        ...

    async def rename_project(self, organisation: str, project: str, name: str) -> None:
        """Change the project's name, if the project exists."""
        ...

    async def archive_project(self, organisation: str, project: str, now: float) -> None:
        """Archive the project, if it exists and is not archived."""
        ...

    async def add_owner(self, organisation: str, user: str) -> None:
        """Add a user to the organisation's owners."""
        ...

    async def give_up_owner(self, organisation: str, user: str) -> bool:
        """Remove a user from the owners; return false and change nothing if no owner would remain."""
        ...


class UsageStore(Protocol):
    """Store of usage records, which are immutable."""

    async def add_new(self, records: Sequence[UsageRecord]) -> list[bool]:
        """Store the records that do not exist yet, durably, in one write; return for each whether it was stored by this
        call.

        Pass the others to `add`, which tells repeated from conflicting ones.

        Raises:
            RecordRefused: the store can't hold one of them; the others may have been stored.
        """
        ...

    async def add(self, record: UsageRecord) -> Insertion:
        """Store the usage of one attempt at a job, durably and once.

        Raises:
            RecordRefused: the store can't hold it.
        """
        ...

    async def of_jobs(self, jobs: Collection[str]) -> Sequence[tuple[str, Usage]]:
        """Return the usage of each attempt at these jobs, with the job's id."""
        ...


class IdempotencyStore(Protocol):
    """Store of idempotency keys and answers. An update names the attempt that holds the record."""

    async def insert(self, record: IdempotencyRecord) -> IdempotencyRecord | None:
        """Store a record unless its id exists; return the existing record then."""
        ...

    async def replace(self, old: IdempotencyRecord, new: IdempotencyRecord) -> bool:
        """Replace `old` by `new` if the attempt and the lease are unchanged; return whether it was."""
        ...

    async def renew(self, record_id: str, attempt: str, lease: float) -> bool:
        """Extend the attempt's lease; return false if another attempt holds the record."""
        ...

    async def finish(self, record_id: str, attempt: str, answer: KeptAnswer) -> bool:
        """Store the answer; return false if another attempt holds the record.

        Raises:
            RecordRefused: the store can't hold it.
        """
        ...

    async def release(self, record_id: str, attempt: str) -> None:
        """Delete the record of an attempt that had no effect."""
        ...
