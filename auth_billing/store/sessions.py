"""MongoDB store of browser sessions: `sessions {_id, user, ..., forget}`; a TTL index deletes expired sessions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from auth_billing.people.session_records import SessionRecord
from auth_billing.store.connection import StoreConnection

COLLECTION = "sessions"
EXPIRES = "forget"
"""The field of the TTL index."""
_DIGESTS = ("current", "previous", "sealed")


class MongoSessionStore:
    """MongoDB implementation of `session_records.SessionStore`. Writes are journaled; raises `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._sessions = connection.durable(COLLECTION)

    async def add(self, session: SessionRecord) -> None:
        """Store a new session durably."""
        fields = dict(vars(session))
        expires = datetime.fromtimestamp(session.expires, UTC)
        await self._sessions.insert_one({"_id": fields.pop("id"), EXPIRES: expires, **fields})

    async def find(self, session_id: str) -> SessionRecord | None:
        """Return the session with this id, even if it has expired or was revoked; `None` if there is none."""
        document = await self._sessions.find_one({"_id": session_id})
        return None if document is None else _record(document)

    async def rotate(self, session_id: str, old: bytes, new: bytes, sealed: bytes, now: float) -> bool:
        """Replace the current token digest `old` by `new`, in one update; false if `old` is not current."""
        change = {"current": new, "previous": old, "sealed": sealed, "used": now}
        return await self._sessions.update_matching(
            {"_id": session_id, "current": old, "revoked": None}, {"$set": change}
        )

    async def revoke(self, session_id: str, now: float) -> None:
        """Revoke a session at `now` (Unix seconds); no effect if it is revoked."""
        await self._sessions.update_one({"_id": session_id, "revoked": None}, {"$set": {"revoked": now}})


def _record(document: dict[str, Any]) -> SessionRecord:
    fields = {name: value for name, value in document.items() if name not in ("_id", EXPIRES)}
    return SessionRecord(id=document["_id"], **fields | {name: bytes(fields[name]) for name in _DIGESTS})
