"""MongoDB store of browser sessions: `sessions {_id, user, ..., forget}`; a TTL index deletes expired sessions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from auth_billing.people.session_records import SessionRecord
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document, to_document

COLLECTION = "sessions"
EXPIRES = "forget"
"""The field of the TTL index."""
_DIGESTS = ("current", "previous", "sealed")


class MongoSessionStore:
    """MongoDB implementation of `session_records.SessionStore`. Writes are journaled; raises `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._sessions = connection.durable(COLLECTION)

    async def add(self, session: SessionRecord) -> None:
        """Store a new browser session durably."""
        expires = datetime.fromtimestamp(session.expires, UTC)
        await self._sessions.insert_one(to_document(session, **{EXPIRES: expires}))

    async def find(self, session_id: str) -> SessionRecord | None:
        """Return the browser session with this id, even if it has expired or was revoked; `None` if there is none."""
        return await self._sessions.find_record(_record, {"_id": session_id})

    async def rotate(self, session_id: str, old: bytes, new: bytes, sealed: bytes, now: float) -> bool:
        """Replace a browser session's refresh token, by digest; return false if `old` is not the valid digest.

        `new` is the new token's digest, and `sealed` the new token encrypted by the old one. Nothing changes if false
        is returned.
        """
        change = {"current": new, "previous": old, "sealed": sealed, "used": now}
        return await self._sessions.update_matching(
            {"_id": session_id, "current": old, "revoked": None}, {"$set": change}
        )

    async def set_checked(self, session_id: str, before: float, at: float) -> bool:
        """Set the time of a browser session's last check with the identity provider to `at` if it was before `before`.

        Return false if it was not, or the session was revoked. Times are in Unix seconds.
        """
        due = {"_id": session_id, "checked": {"$lt": before}, "revoked": None}
        return await self._sessions.update_matching(due, {"$set": {"checked": at}})

    async def keep_provider_token(self, session_id: str, token: str) -> None:
        """Replace the identity provider's refresh token of a browser session; `token` is encrypted."""
        await self._sessions.update_one({"_id": session_id}, {"$set": {"provider_token": token}})

    async def revoke(self, session_id: str, now: float) -> None:
        """End a browser session at `now` (Unix seconds)."""
        await self._sessions.update_one({"_id": session_id, "revoked": None}, {"$set": {"revoked": now}})

    async def revoke_all(self, organisation: str, user: str, now: float) -> None:
        """End all browser sessions of a user in an organisation at `now` (Unix seconds)."""
        active = {"user": user, "organisation": organisation, "revoked": None}
        await self._sessions.update_many(active, {"$set": {"revoked": now}})


def _record(document: dict[str, Any]) -> SessionRecord:
    return from_document(SessionRecord, document, **{name: bytes(document[name]) for name in _DIGESTS})
