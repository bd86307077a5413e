"""Defines the stored form of a browser session, and the interface of the store of sessions.

Times are Unix seconds. Each method of the port raises `StoreUnavailable` when the store does not answer in time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class SessionRecord:
    """One sign-in: a family of refresh tokens, of which one at a time is valid."""

    id: str
    user: str
    organisation: str
    version: int
    """The user's version when the session was opened."""
    created: float
    expires: float
    used: float
    """Time of the last refresh."""
    current: bytes = field(repr=False)
    """Digest of the valid refresh token."""
    previous: bytes = field(default=b"", repr=False)
    """Digest of the token that was exchanged for the valid one."""
    sealed: bytes = field(default=b"", repr=False)
    """The valid token, encrypted with the previous one."""
    revoked: float | None = None
    identity: str = ""
    """Id of the identity that signed in at the identity provider; empty: sign-in with a password or a link."""
    provider_token: str = field(default="", repr=False)
    """The provider's refresh token, encrypted; empty: the provider gave none."""
    checked: float = 0.0
    """Time at which the session was last checked with the provider; while a check runs, somewhat later."""


class SessionStore(Protocol):
    """Store of browser sessions. Expired ones may be deleted."""

    async def add(self, session: SessionRecord) -> None:
        """Store a new browser session durably."""
        ...

    async def find(self, session_id: str) -> SessionRecord | None:
        """Return the browser session with this id, even if it has expired or was revoked; `None` if there is none."""
        ...

    async def rotate(self, session_id: str, old: bytes, new: bytes, sealed: bytes, now: float) -> bool:
        """Replace a browser session's refresh token, by digest; return false if `old` is not the valid digest.

        `new` is the new token's digest, and `sealed` the new token encrypted by the old one. Nothing changes if false
        is returned.
        """
        ...

    async def set_checked(self, session_id: str, before: float, at: float) -> bool:
        """Set the time of a browser session's last check with the identity provider to `at` if it was before `before`.

        Return false if it was not, or the session was revoked. Times are in Unix seconds.
        """
        ...

    async def keep_provider_token(self, session_id: str, token: str) -> None:
        """Replace the identity provider's refresh token of a browser session; `token` is encrypted."""
        ...

    async def revoke(self, session_id: str, now: float) -> None:
        """End a browser session at `now` (Unix seconds)."""
        ...

    async def revoke_all(self, organisation: str, user: str, now: float) -> None:
        """End all browser sessions of a user in an organisation at `now` (Unix seconds)."""
        ...
