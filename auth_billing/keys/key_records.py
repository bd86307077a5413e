"""Stored form of API keys, and the port of their store.

Times are Unix seconds. Each method of the port raises `StoreUnavailable` when the store does not answer in time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from auth_billing.access.scopes import ADMIN_SCOPES, PROJECT_SCOPES, Scope
from router.messages import KeySet


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
        """Whether `keys` selects this key: each field of `keys` is empty or equals the key's."""
        return (
            keys.key in ("", self.key_id)
            and keys.organisation in ("", self.organisation)
            and keys.project in ("", self.project)
            and keys.user in ("", self.user)
            and (self.is_admin or not keys.admin_only)
        )

    @property
    def is_admin(self) -> bool:
        """Whether this is an organisation's admin key: for administration, not for inference."""
        return not self.project

    @property
    def rights(self) -> frozenset[Scope]:
        """The key's effective scopes: the stored ones, restricted to the ones allowed for its kind of key."""
        possible = ADMIN_SCOPES if self.is_admin else PROJECT_SCOPES
        return possible if self.scopes is None else possible & self.scopes

    def is_live(self, now: float) -> bool:
        """Whether the key is neither revoked nor expired at `now` (Unix seconds)."""
        return self.revoked is None and (self.expires is None or now < self.expires)


class ApiKeyStore(Protocol):
    """Store of API keys, without their secrets."""

    async def find(self, key_id: str) -> ApiKeyRecord | None:
        """Return the key with this id, revoked and expired ones included; `None` if there is none."""
        ...

    async def add(self, record: ApiKeyRecord) -> None:
        """Store a new key durably."""
        ...

    async def unrevoked(self, organisation: str, project: str) -> list[ApiKeyRecord]:
        """Return the unrevoked keys of a project (empty: the organisation's admin keys), newest first."""
        ...

    async def rename(self, key_id: str, name: str) -> None:
        """Change the name of the key with this id; no effect if there is none."""
        ...

    async def expire(self, key_id: str, at: float) -> None:
        """Set the key's expiry to `at` (Unix seconds), unless it expires earlier already."""
        ...

    async def set_last_used(self, uses: Mapping[str, float]) -> None:
        """Store when keys were last used (Unix seconds by key id), in one write, which may be lost."""
        ...

    async def revoke(self, keys: KeySet, now: float) -> int:
        """Revoke the unrevoked keys that `keys` selects and return their number; none if `keys` has no criteria."""
        ...
