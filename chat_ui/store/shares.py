"""MongoDB store of share links: `shares {_id: conversation, organisation, user, ..., digest, joined}`."""

from __future__ import annotations

from auth_billing.store.connection import StoreConnection
from chat_ui.history.records import Owner
from chat_ui.store.documents import owned_by, owner_from

COLLECTION = "shares"


class MongoShareStore:
    """MongoDB implementation of `history.records.ShareStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._shares = connection.durable(COLLECTION)

    async def put(self, owner: Owner, conversation_id: str, digest: bytes, joined: float) -> None:
        """Store the digest of a conversation's share token in place of an earlier link, which becomes invalid.

        `joined`: when the owner's membership began, in Unix seconds.
        """
        key = owned_by(owner, _id=conversation_id)
        link = {**key, "conversation": conversation_id, "digest": digest, "joined": joined}
        await self._shares.replace_one(key, link, upsert=True)

    async def remove(self, owner: Owner, conversation_id: str) -> None:
        """Delete a conversation's share link; no effect if it has none."""
        await self._shares.delete_one(owned_by(owner, _id=conversation_id))

    async def find(self, digest: bytes) -> tuple[Owner, str, float | None] | None:
        """Return owner, conversation id and membership start of the share link with this token digest; `None` if none.

        The start (Unix seconds; `None`: not stored) is of when the link was made; the link is void if it differs now.
        """
        document = await self._shares.find_one({"digest": digest})
        return None if document is None else (owner_from(document), document["conversation"], document.get("joined"))
