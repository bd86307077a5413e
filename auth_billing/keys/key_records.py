"""Defines the stored form of API keys, and the interface of their store.

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
        """Return whether `keys` selects this API key: each field of `keys` is empty or equals the key's."""
        return (
            keys.key in ("", self.key_id)
            and keys.organisation in ("", self.organisation)
            and keys.project in ("", self.project)
            and keys.user in ("", self.user)
            and (self.is_admin or not keys.admin_only)
        )

    @property
    def is_admin(self) -> bool:
        """Whether this API key is an organisation's admin key, which is for administration and can't call models."""
        return not self.project

    @property
    def rights(self) -> frozenset[Scope]:
        """The API key's effective scopes: the stored ones, restricted to those that its kind of key may have."""
        possible = ADMIN_SCOPES if self.is_admin else PROJECT_SCOPES
        return possible if self.scopes is None else possible & self.scopes

    def is_live(self, now: float) -> bool:
        """Return whether the API key is neither revoked nor expired at `now` (Unix seconds)."""
        return self.revoked is None and (self.expires is None or now < self.expires)


class ApiKeyStore(Protocol):
    """Store of API keys, without their secrets."""

    async def find(self, key_id: str) -> ApiKeyRecord | None:
        """Return the stored API key with this id, also a revoked or expired one; `None` if there is none."""
        ...

    async def add(self, record: ApiKeyRecord) -> None:
        """Store a new API key durably: its record with the secret's digest."""
        ...

    async def unrevoked(self, organisation: str, project: str) -> list[ApiKeyRecord]:
        """Return the unrevoked API keys of a project (empty: the organisation's admin keys), newest first."""
        ...

    async def rename(self, key_id: str, name: str) -> None:
        """Change the name of the API key with this id; no effect if there is none."""
        ...

    async def expire(self, key_id: str, at: float) -> None:
        """Set the expiry of the API key with this id to `at` (Unix seconds), unless the key expires earlier already."""
        ...

    async def set_last_used(self, uses: Mapping[str, float]) -> None:
        """Store when API keys were last used (Unix seconds by key id), in one write; a later stored time is kept.

        A crash may lose the write.
        """
        ...

    async def revoke(self, keys: KeySet, now: float) -> int:
        """Revoke at `now` (Unix seconds) the unrevoked API keys that `keys` selects; return their number.

        If `keys` has no criteria, none is revoked.
        """
        ...
