"""What is stored, and the ports to where it is stored. Knows no MongoDB: `store/` implements the ports.

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
    archived: float | None = None
    """Out of use for good since then."""


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
    scopes: frozenset[Scope] | None = None
    """What it may do; `None`: all that a key of its kind may (which is what keys without the field were given)."""
    models: frozenset[str] | None = None
    """The models that it may ask for, by any name of theirs; `None`: all."""
    user: str = ""
    """Who made it and answers for it; "": nobody in particular (a service account)."""
    last_used: float | None = None

    def is_in(self, keys: KeySet) -> bool:
        """Whether it is one of `keys`."""
        return (
            keys.key in ("", self.key_id)
            and keys.organisation in ("", self.organisation)
            and keys.project in ("", self.project)
            and keys.user in ("", self.user)
            and (self.is_admin or not keys.admin_only)
        )

    @property
    def is_admin(self) -> bool:
        """Whether it is the organisation's own, of no project: for administration, not for inference."""
        return not self.project

    @property
    def rights(self) -> frozenset[Scope]:
        """What it may do, never more than a key of its kind."""
        possible = ADMIN_SCOPES if self.is_admin else PROJECT_SCOPES
        return possible if self.scopes is None else possible & self.scopes

    def is_live(self, now: float) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or now < self.expires)


@dataclass(frozen=True)
class KeptAnswer:
    """The answer to a request with an idempotency key. `body` is `None` if it was too large to be kept."""

    status: int
    headers: dict[str, str]
    body: bytes | None = field(repr=False)


@dataclass(frozen=True)
class IdempotencyRecord:
    """An idempotency key that was used, and who runs or has run its request.

    `attempt` counts as alive until `lease` unless it renews that; a request that is answered has no lease any more (0).
    """

    id: str
    fingerprint: str
    attempt: str
    lease: float
    expires: float
    answer: KeptAnswer | None = None


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

    async def unrevoked(self, organisation: str, project: str) -> list[ApiKeyRecord]:
        """The keys of a project ("": the organisation's own) that are not revoked, newest first."""
        ...

    async def rename(self, key_id: str, name: str) -> None:
        """Give the key another name."""
        ...

    async def expire(self, key_id: str, at: float) -> None:
        """Have the key expire at `at`, unless it does so sooner."""
        ...

    async def used(self, uses: Mapping[str, float]) -> None:
        """Keep when keys, by id, were last used, in one write; it may be lost."""
        ...

    async def revoke(self, keys: KeySet, now: float) -> int:
        """Revoke all of `keys` that are not revoked; how many there were. A set that names nothing is nobody's."""
        ...


class AccountStore(Protocol):
    """Where organisations and projects are."""

    async def ensure_organisation(self, organisation: Organisation) -> None:
        """Store it unless one with its id is there."""
        ...

    async def ensure_project(self, project: Project) -> None:
        """Store it unless one with its id is there."""
        ...

    async def find_organisation(self, organisation: str) -> Organisation | None:
        """The organisation with this id."""
        ...

    async def projects(self, organisation: str) -> list[Project]:
        """All projects of an organisation, oldest first."""
        ...

    async def find_project(self, organisation: str, project: str) -> Project | None:
        """The organisation's project with this id."""
        ...

    async def rename_project(self, organisation: str, project: str, name: str) -> None:
        """Give the organisation's project another name, if there is such a project."""
        ...

    async def archive_project(self, organisation: str, project: str, now: float) -> None:
        """Archive the organisation's project, if there is such a project and it is not archived."""
        ...

    async def add_owner(self, organisation: str, user: str) -> None:
        """Count a user among the organisation's owners."""
        ...

    async def give_up_owner(self, organisation: str, user: str) -> bool:
        """Count him no more; false if nobody would be left, and nothing is changed then."""
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

    async def of_jobs(self, jobs: Collection[str]) -> Sequence[tuple[str, Usage]]:
        """What each attempt at these jobs has used, with the job's id."""
        ...


class IdempotencyStore(Protocol):
    """Where idempotency keys and kept answers are. What changes a record names the attempt that it belongs to."""

    async def insert(self, record: IdempotencyRecord) -> IdempotencyRecord | None:
        """Store a record unless one with its id is there, which is returned then."""
        ...

    async def replace(self, old: IdempotencyRecord, new: IdempotencyRecord) -> bool:
        """Put `new` in the place of `old` if that still has the attempt and the lease that it had."""
        ...

    async def renew(self, record_id: str, attempt: str, lease: float) -> bool:
        """Say that the attempt is alive; false if it is not its record any more."""
        ...

    async def finish(self, record_id: str, attempt: str, answer: KeptAnswer) -> bool:
        """Keep the answer; false if it is not its record any more.

        Raises:
            RecordRefused: the store can't hold it.
        """
        ...

    async def release(self, record_id: str, attempt: str) -> None:
        """Forget an attempt that came to nothing."""
        ...
