"""Defines identities at an OpenID Connect provider, and the store interface of these and of used sign-in states."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Identity:
    """An account at a provider: issuer and subject together identify it, and nothing else does."""

    id: str
    issuer: str
    subject: str
    user: str
    """Id of the user that signs in with it."""
    created: float
    """Unix seconds."""


class IdentityStore(Protocol):
    """Store of identities and of used sign-in states. Methods raise `StoreUnavailable`."""

    async def add(self, identity: Identity) -> bool:
        """Durably store a new identity, a user's account at the provider; return false if its id is stored."""
        ...

    async def find(self, identity_id: str) -> Identity | None:
        """Return the identity (account at the identity provider) with this id, or `None` if there is none."""
        ...

    async def of_user(self, user: str) -> list[Identity]:
        """Return the identities (accounts at the identity provider) that sign in as a user, oldest first."""
        ...

    async def remove(self, identity_id: str, user: str) -> bool:
        """Delete one identity of a user, an account at the provider; return false if the user has no such identity."""
        ...

    async def remove_all(self, user: str) -> None:
        """Delete all identities of a user, so that no account at the identity provider signs in as the user."""
        ...

    async def use_state(self, state: str, expires: float) -> bool:
        """Mark a sign-in's `state` value as used until `expires` (Unix seconds); return false if it was used before."""
        ...


def identity_id(issuer: str, subject: str) -> str:
    """Return the stored id of an identity, made of the provider's URL `issuer` and the account's `subject` there."""
    return hashlib.sha256(f"{len(issuer)}:{issuer}{subject}".encode()).hexdigest()
