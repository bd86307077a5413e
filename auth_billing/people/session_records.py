"""A browser's session as it is stored, and the port to where that is. Knows no MongoDB and no JWT.

Times are Unix seconds. Each method of the port raises `StoreUnavailable` when the store does not answer in time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class SessionRecord:
    """One sign-in: a family of refresh tokens, of which one at a time is good."""

    id: str
    user: str
    organisation: str
    version: int
    """The user's when it began."""
    created: float
    expires: float
    used: float
    """When it was last refreshed."""
    current: bytes = field(repr=False)
    """Digest of the refresh token that is good."""
    previous: bytes = field(default=b"", repr=False)
    """Digest of the one before, for which it was given."""
    sealed: bytes = field(default=b"", repr=False)
    """The good token, which only the one before it opens."""
    revoked: float | None = None


class SessionStore(Protocol):
    """Where sessions are. Those that have expired may be forgotten."""

    async def add(self, session: SessionRecord) -> None:
        """Store a new one, durably."""
        ...

    async def find(self, session_id: str) -> SessionRecord | None:
        """The session with this id."""
        ...

    async def rotate(self, session_id: str, old: bytes, new: bytes, sealed: bytes, now: float) -> bool:
        """Put the token with digest `new` in the place of `old`; false if `old` is not the good one (any more)."""
        ...

    async def revoke(self, session_id: str, now: float) -> None:
        """End it."""
        ...
