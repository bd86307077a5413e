"""MongoDB store of password reset links: `password_resets {_id: user, digest, ...}`; a TTL index deletes old ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from auth_billing.people.password_reset import PasswordResetRecord
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document, to_document

COLLECTION = "password_resets"
EXPIRES = "forget"
"""The field of the TTL index."""


class MongoPasswordResetStore:
    """MongoDB implementation of `password_reset.PasswordResetStore`. Methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._resets = connection.durable(COLLECTION)

    async def put(self, reset: PasswordResetRecord) -> None:
        """Store a user's password reset link durably, in place of an earlier one."""
        document = to_document(reset, **{EXPIRES: datetime.fromtimestamp(reset.expires, UTC)})
        await self._resets.replace_one({"_id": reset.id}, document, upsert=True)

    async def find_by_digest(self, digest: bytes) -> PasswordResetRecord | None:
        """Return the password reset link whose token has this digest, even an expired one; `None` if there is none."""
        return await self._resets.find_record(_record, {"digest": digest})

    async def delete(self, user: str, digest: bytes) -> None:
        """Delete a user's password reset link, if it is still the one whose token has this digest."""
        await self._resets.delete_one({"_id": user, "digest": digest})


def _record(document: dict[str, Any]) -> PasswordResetRecord:
    return from_document(PasswordResetRecord, document, digest=bytes(document["digest"]))
