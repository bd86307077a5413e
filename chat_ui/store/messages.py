"""Messages in MongoDB: `messages {_id, organisation, user, conversation, parent, role, text, ...}`.

An answer that is being written has `open` (its conversation), `lease` (until when its writer counts as alive, 0: it has
none) and `writer`, so that the two indexes that these are found by hold little. What is written on the way may be lost
in a crash of the store; the end may not. Changes are updates by `_id`, then reads: for
`find_one_and_update` the embedded store looks at every document.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pymongo

from auth_billing.store.connection import BATCH_SECONDS, StoreConnection, translated_errors
from chat_ui.history.records import Claim, Message, Owner, Progress
from chat_ui.store.batches import insert_in_batches
from chat_ui.store.documents import message_document, message_from, of_owner, owner_from, plain

COLLECTION = "messages"
MOST_SEARCHED = 200
"""Messages that are looked through for excerpts of one page."""
_NO_FILES = {"attachments.text": 0}
_NOT_OPEN = dict.fromkeys(("open", "lease", "writer", "stop", "waiting"), "")


class MongoMessageStore:
    """Implements `records.MessageStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._messages = connection.durable(COLLECTION)

    async def add(self, owner: Owner, messages: Sequence[Message], writer: str = "", until: float = 0.0) -> None:
        """Store new ones, durably; those that are open are `writer`'s to write."""
        documents = [message_document(owner, message) for message in messages]
        for document, message in zip(documents, messages, strict=True):
            if message.state.is_open:
                document |= {"open": message.conversation, "lease": until, "writer": writer}
        with translated_errors():
            await self._messages.insert_many(documents)

    async def bring(self, owner: Owner, messages: Sequence[Message]) -> None:
        """Store many that have ended, durably; those that are there already stay."""
        await insert_in_batches(self._messages, (message_document(owner, message) for message in messages))

    async def discard(self, owner: Owner, conversation_ids: Collection[str]) -> None:
        """Delete all of these conversations."""
        with translated_errors(), pymongo.timeout(BATCH_SECONDS):
            await self._messages.delete_many(of_owner(owner, conversation={"$in": list(conversation_ids)}))

    async def all(self, owner: Owner, conversation_id: str) -> list[Message]:
        """Those of a conversation, in the order in which they were written; attachments have no text."""
        with translated_errors():
            found = self._messages.find(of_owner(owner, conversation=conversation_id), _NO_FILES)
            return [message_from(each) async for each in found.sort([("created", 1), ("_id", 1)])]

    async def whole(self, owner: Owner, conversation_ids: Collection[str]) -> list[Message]:
        """Those of these conversations, with the text of their files, in any order."""
        wanted = of_owner(owner, conversation={"$in": list(conversation_ids)})
        with translated_errors(), pymongo.timeout(BATCH_SECONDS):
            return [message_from(each) async for each in self._messages.find(wanted)]

    async def branch(self, owner: Owner, conversation_id: str, message_ids: Collection[str]) -> list[Message]:
        """These, whole, in any order."""
        wanted = of_owner(owner, conversation=conversation_id, _id={"$in": list(message_ids)})
        with translated_errors():
            return [message_from(each) async for each in self._messages.find(wanted)]

    async def find(self, owner: Owner, conversation_id: str, message_id: str) -> Message | None:
        """One of them; attachments have no text."""
        wanted = of_owner(owner, conversation=conversation_id, _id=message_id)
        with translated_errors():
            document = await self._messages.find_one(wanted, _NO_FILES)
        return None if document is None else message_from(document)

    async def open_in(self, owner: Owner, conversation_ids: Collection[str]) -> set[str]:
        """Those of these conversations in which an answer is being written."""
        wanted = of_owner(owner, open={"$in": list(conversation_ids)})
        with translated_errors():
            return {each["open"] async for each in self._messages.find(wanted, {"open": 1})}

    async def containing(self, owner: Owner, conversation_ids: Collection[str], pattern: str) -> list[tuple[str, str]]:
        """Conversations' ids with texts of theirs that match a regular expression."""
        wanted = of_owner(
            owner, conversation={"$in": list(conversation_ids)}, text={"$regex": pattern, "$options": "i"}
        )
        with translated_errors():
            found = self._messages.find(wanted, {"conversation": 1, "text": 1}).limit(MOST_SEARCHED)
            return [(each["conversation"], each["text"]) async for each in found]

    async def request_stop(self, owner: Owner, conversation_id: str, message_id: str) -> Message | None:
        """Ask whoever writes an answer to stop; the message, `None` if there is none."""
        wanted = of_owner(owner, conversation=conversation_id, _id=message_id)
        with translated_errors():
            await self._messages.update_one({**wanted, "open": {"$exists": True}}, {"$set": {"stop": True}})
        return await self.find(owner, conversation_id, message_id)


class MongoAnswerStore:
    """Implements `records.AnswerStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._durable = connection.durable(COLLECTION)
        self._passing = connection.passing(COLLECTION)

    async def claim(self, message_id: str, writer: str, until: float, now: float) -> Claim | None:
        """Make an open answer this writer's, if nobody alive has it."""
        free = {"_id": message_id, "lease": {"$lt": now}}
        with translated_errors():
            result = await self._passing.update_one(free, {"$set": {"writer": writer, "lease": until}})
            if not result.matched_count:
                return None
            document = await self._passing.find_one({"_id": message_id, "writer": writer})
        return None if document is None else Claim(owner_from(document), message_from(document))

    async def abandoned(self, now: float, limit: int) -> list[str]:
        """Ids of open answers that nobody alive writes."""
        with translated_errors():
            found = self._passing.find({"lease": {"$lt": now}}, {"_id": 1}).limit(limit)
            return [each["_id"] async for each in found]

    async def keep(self, message_id: str, writer: str, until: float, progress: Progress) -> bool | None:
        """Say that the writer is alive and how far it is; whether it is to stop. `None`: it is not its any more."""
        news = {name: plain(value) for name, value in vars(progress).items() if value is not None}
        with translated_errors():
            result = await self._passing.update_one(
                {"_id": message_id, "writer": writer}, {"$set": {"lease": until, **news}}
            )
            if not result.matched_count:
                return None
            document = await self._passing.find_one({"_id": message_id}, {"stop": 1})
        return None if document is None else bool(document.get("stop", False))

    async def release(self, message_id: str, writer: str) -> None:
        """Let somebody else go on at once."""
        with translated_errors():
            await self._passing.update_one(
                {"_id": message_id, "writer": writer}, {"$set": {"lease": 0.0, "writer": ""}}
            )

    async def finish(self, message: Message, writer: str) -> bool:
        """Store the end of an answer, durably; false if it is not the writer's any more."""
        told: dict[str, Any] = {
            name: plain(getattr(message, name))
            for name in (
                "text",
                "state",
                "error",
                "finish_reason",
                "usage",
                "cost",
                "seconds",
                "first_token_seconds",
                "attempt",
            )
        }
        with translated_errors():
            result = await self._durable.update_one(
                {"_id": message.id, "writer": writer}, {"$set": told, "$unset": _NOT_OPEN}
            )
        return bool(result.matched_count)
