"""Conversations in MongoDB: `conversations {_id, organisation, user, ..., order}`, their messages in `messages.py`.

What they are found by is a document of its own, `conversation_terms {_id, organisation, user, terms}`, with a multikey
index (the embedded store has no text index), so that lists read little.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pymongo
from pymongo.errors import DuplicateKeyError

from auth_billing.errors import StoreUnavailable
from auth_billing.store.connection import StoreConnection, translated_errors
from chat_ui.history.bounds import MOST_FOUND, MOST_TERMS
from chat_ui.history.records import Conversation, Owner, Wanted
from chat_ui.store.documents import conversation_document, conversation_from, of_owner, plain
from chat_ui.store.messages import COLLECTION as MESSAGES
from chat_ui.store.shares import COLLECTION as SHARES

COLLECTION = "conversations"
TERMS = "conversation_terms"
TRIES = 10
"""Of a change that only fails because somebody else has just made one."""


class MongoConversationStore:
    """Implements `records.ConversationStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._conversations = connection.durable(COLLECTION)
        self._terms = connection.passing(TERMS)
        self._messages = connection.durable(MESSAGES)
        self._shares = connection.durable(SHARES)

    async def add(self, owner: Owner, filed: Mapping[Conversation, Collection[str]]) -> None:
        """Store new ones, durably, each with the terms that it is found by."""
        found_by = [
            of_owner(owner, _id=each.id, terms=list(terms)[:MOST_TERMS]) for each, terms in filed.items() if terms
        ]
        with translated_errors():
            if found_by:
                await self._terms.insert_many(found_by)
            await self._conversations.insert_many([conversation_document(owner, each) for each in filed])

    async def find(self, owner: Owner, conversation_id: str) -> Conversation | None:
        """One of the owner's."""
        with translated_errors():
            document = await self._conversations.find_one(of_owner(owner, _id=conversation_id))
        return None if document is None else conversation_from(document)

    async def page(self, owner: Owner, wanted: Wanted) -> list[Conversation]:
        """Some of the owner's, greatest `order` first."""
        matched = await self._matched(owner, wanted)
        if wanted.before is not None:
            matched["order"] = {"$lt": wanted.before}
        with translated_errors():
            found = self._conversations.find(matched).sort("order", pymongo.DESCENDING).limit(wanted.limit)
            return [conversation_from(each) async for each in found]

    async def count(self, owner: Owner, wanted: Wanted) -> int:
        """How many there are in all pages; of a search, up to `MOST_FOUND`."""
        matched = await self._matched(owner, wanted)
        with translated_errors():
            return int(await self._conversations.count_documents(matched))

    async def change(
        self, owner: Owner, conversation_id: str, changes: Mapping[str, Any], grows: Mapping[str, int] | None = None
    ) -> Conversation | None:
        """Set fields by name, and let others grow; the conversation as it is then, `None` if there is none."""
        for _ in range(TRIES):
            before = await self.find(owner, conversation_id)
            if before is None:
                return None
            stored = {name: plain(value) for name, value in changes.items()}
            update: dict[str, Any] = {"$set": {**stored, "order": replace(before, **changes).order}}
            if grows:
                update["$inc"] = dict(grows)
            unchanged = of_owner(owner, _id=conversation_id, order=before.order)
            with translated_errors():
                result = await self._conversations.update_one(unchanged, update)
            if result.matched_count:
                return await self.find(owner, conversation_id)
        raise StoreUnavailable("a conversation changes all the time")

    async def set_first_title(self, owner: Owner, conversation_id: str, title: str) -> bool:
        """Give it a title unless it has one."""
        with translated_errors():
            result = await self._conversations.update_one(
                of_owner(owner, _id=conversation_id, title=""), {"$set": {"title": title}}
            )
        return bool(result.matched_count)

    async def add_terms(self, owner: Owner, conversation_id: str, terms: Collection[str]) -> None:
        """What it can be found by, besides what it could until now."""
        with suppress(DuplicateKeyError), translated_errors():  # another person's, which nobody is told
            known = await self._terms.find_one(of_owner(owner, _id=conversation_id))
            before = [] if known is None else known["terms"]
            new = list(dict.fromkeys([*before, *terms]))[len(set(before)) : MOST_TERMS]
            if new:  # pushed: `$addToSet` of a thousand takes the embedded store ten seconds
                await self._terms.update_one(
                    of_owner(owner, _id=conversation_id), {"$push": {"terms": {"$each": new}}}, upsert=True
                )

    async def remove(self, owner: Owner, conversation_id: str) -> bool:
        """Delete it with its messages; false if there was none. It goes first: nothing leads to the rest then."""
        whole, parts = of_owner(owner, _id=conversation_id), of_owner(owner, conversation=conversation_id)
        with translated_errors():
            result = await self._conversations.delete_one(whole)
            await self._shares.delete_many(parts)
            await self._terms.delete_one(whole)
            await self._messages.delete_many(parts)
        return bool(result.deleted_count)

    async def _matched(self, owner: Owner, wanted: Wanted) -> dict[str, Any]:
        matched = of_owner(owner, archived=wanted.archived)
        if wanted.words:
            matched["_id"] = {"$in": await self._found(owner, wanted.words)}
        return matched

    async def _found(self, owner: Owner, words: Collection[str]) -> list[str]:
        *whole, last = words
        beginning = {"terms": {"$elemMatch": {"$gte": last, "$lt": last + "\U0010ffff"}}}
        conditions = [beginning, *({"terms": word} for word in whole)]
        with translated_errors():
            found = self._terms.find(of_owner(owner, **{"$and": conditions}), {"_id": 1}).limit(MOST_FOUND)
            return [each["_id"] async for each in found]
