"""MongoDB stores of messages, and of the leases of answers in progress: `messages {_id, organisation, user, ...}`.

Other fields are `conversation`, `parent`, `role` and `text`. An answer in progress also has `open` (its conversation's
id), `lease` (end of its writer's lease, 0: no writer) and `writer`; the two sparse indexes over them stay small.
Progress may be lost in a crash of the store, the final state may not. Changes are an update by `_id` and then a read,
because `find_one_and_update` makes the embedded store scan every document.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pymongo

from auth_billing.store.connection import BATCH_TIMEOUT, StoreConnection
from chat_ui.history.records import Claim, Message, Owner, Progress
from chat_ui.store.batch_insertion import insert_missing
from chat_ui.store.documents import message_document, message_from, owned_by, owner_from, to_stored

COLLECTION = "messages"
MAX_SEARCHED = 200
"""Messages that are searched for the excerpts of one page, at most."""
_WITHOUT_FILE_TEXT = {"attachments.text": 0}
_FINAL = (
    "text",
    "state",
    "error",
    "finish_reason",
    "usage",
    "cost",
    "seconds",
    "first_token_seconds",
    "attempt",
    "steps",
)
"""Fields that the end of an answer sets."""
_NOT_OPEN = dict.fromkeys(("open", "lease", "writer", "stop", "waiting"), "")


class MongoMessageStore:
    """MongoDB implementation of `history.records.MessageStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._messages = connection.durable(COLLECTION)

    async def add(self, owner: Owner, messages: Sequence[Message], writer: str = "", until: float = 0.0) -> None:
        """Store new messages durably; open answers are leased to the process `writer` until `until` (Unix seconds)."""
        documents = [message_document(owner, message) for message in messages]
        for document, message in zip(documents, messages, strict=True):
            if message.state.is_open:
                document |= {"open": message.conversation, "lease": until, "writer": writer}
        await self._messages.insert_many(documents)

    async def add_missing(self, owner: Owner, messages: Sequence[Message]) -> None:
        """Store finished messages durably; existing ones are left unchanged."""
        await insert_missing(self._messages, (message_document(owner, message) for message in messages))

    async def remove_all(self, owner: Owner, conversation_ids: Collection[str]) -> None:
        """Delete all messages of the owner's conversations with these ids."""
        with pymongo.timeout(BATCH_TIMEOUT):
            await self._messages.delete_many(owned_by(owner, conversation={"$in": list(conversation_ids)}))

    async def all(self, owner: Owner, conversation_id: str) -> list[Message]:
        """Return all messages of a conversation, oldest first; attachments are without their text."""
        found = self._messages.find(owned_by(owner, conversation=conversation_id), _WITHOUT_FILE_TEXT)
        return [message_from(each) async for each in found.sort([("created", 1), ("_id", 1)])]

    async def all_with_files(self, owner: Owner, conversation_ids: Collection[str]) -> list[Message]:
        """Return all messages of the conversations with these ids, attachments with their text, in any order."""
        wanted = owned_by(owner, conversation={"$in": list(conversation_ids)})
        with pymongo.timeout(BATCH_TIMEOUT):
            return [message_from(each) async for each in self._messages.find(wanted)]

    async def find_many(self, owner: Owner, conversation_id: str, message_ids: Collection[str]) -> list[Message]:
        """Return the messages of a conversation that have these ids, attachments with their text, in any order."""
        wanted = owned_by(owner, conversation=conversation_id, _id={"$in": list(message_ids)})
        return [message_from(each) async for each in self._messages.find(wanted)]

    async def find(self, owner: Owner, conversation_id: str, message_id: str) -> Message | None:
        """Return one message of a conversation, attachments without their text; `None` if it does not exist."""
        wanted = owned_by(owner, conversation=conversation_id, _id=message_id)
        return await self._messages.find_record(message_from, wanted, _WITHOUT_FILE_TEXT)

    async def with_open_answers(self, owner: Owner, conversation_ids: Collection[str]) -> set[str]:
        """Return the ids of those of these conversations in which an answer is being written, by any process."""
        wanted = owned_by(owner, open={"$in": list(conversation_ids)})
        return {each["open"] async for each in self._messages.find(wanted, {"open": 1})}

    async def matching_texts(
        self, owner: Owner, conversation_ids: Collection[str], pattern: str
    ) -> list[tuple[str, str]]:
        """Return conversation id and text of the conversations' messages that match the regular expression `pattern`.

        At most `MAX_SEARCHED` messages are returned.
        """
        wanted = owned_by(
            owner, conversation={"$in": list(conversation_ids)}, text={"$regex": pattern, "$options": "i"}
        )
        found = self._messages.find(wanted, {"conversation": 1, "text": 1}).limit(MAX_SEARCHED)
        return [(each["conversation"], each["text"]) async for each in found]

    async def request_stop(self, owner: Owner, conversation_id: str, message_id: str) -> Message | None:
        """Set an answer's stop flag, which its writer polls; return the message, `None` if it does not exist."""
        wanted = owned_by(owner, conversation=conversation_id, _id=message_id)
        await self._messages.update_one({**wanted, "open": {"$exists": True}}, {"$set": {"stop": True}})
        return await self.find(owner, conversation_id, message_id)


class MongoAnswerStore:
    """MongoDB implementation of `history.records.AnswerStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._durable = connection.durable(COLLECTION)
        self._unjournaled = connection.unjournaled(COLLECTION)

    async def claim(self, message_id: str, writer: str, until: float, now: float) -> Claim | None:
        """Lease an open answer to the process `writer` until `until` (Unix seconds), if its lease ended before `now`.

        Returns the answer with its owner, `None` if another process has the lease.
        """
        free = {"_id": message_id, "lease": {"$lt": now}}
        if not await self._unjournaled.update_matching(free, {"$set": {"writer": writer, "lease": until}}):
            return None
        return await self._unjournaled.find_record(_claim, {"_id": message_id, "writer": writer})

    async def abandoned(self, now: float, limit: int) -> list[str]:
        """Return ids of at most `limit` open answers, of all owners, whose lease ended before `now` (Unix seconds)."""
        found = self._unjournaled.find({"lease": {"$lt": now}}, {"_id": 1}).limit(limit)
        return [each["_id"] async for each in found]

    async def renew(self, message_id: str, writer: str, until: float, progress: Progress) -> bool | None:
        """Extend an answer's lease, store its progress; return its stop flag, `None` if `writer` lost the lease."""
        changed = {name: to_stored(value) for name, value in vars(progress).items() if value is not None}
        if not await self._unjournaled.update_matching(
            {"_id": message_id, "writer": writer}, {"$set": {"lease": until, **changed}}
        ):
            return None
        document = await self._unjournaled.find_one({"_id": message_id}, {"stop": 1})
        return None if document is None else bool(document.get("stop", False))

    async def release(self, message_id: str, writer: str) -> None:
        """End the lease that `writer` holds on an answer, so that another process can continue it at once."""
        await self._unjournaled.update_one(
            {"_id": message_id, "writer": writer}, {"$set": {"lease": 0.0, "writer": ""}}
        )

    async def finish(self, message: Message, writer: str) -> bool:
        """Store a finished answer durably and end its lease; return false, storing nothing, if `writer` lost it."""
        final = {name: to_stored(getattr(message, name)) for name in _FINAL}
        return await self._durable.update_matching(
            {"_id": message.id, "writer": writer}, {"$set": final, "$unset": _NOT_OPEN}
        )


def _claim(document: dict[str, Any]) -> Claim:
    return Claim(owner_from(document), message_from(document))
