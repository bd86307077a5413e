"""Conversations in MongoDB: `conversations {_id, organisation, user, ..., order, terms}`.

`terms` holds the search terms as strings without an index: `[" one two three ", " four "]`. The embedded store has no
text index, and a multikey index costs it 30 microseconds per written word, more than the rest of a conversation
together. Scanning an owner's conversations costs 100 microseconds each.

The embedded store reads every index entry of a filter before it sorts or limits, so lists are read in time spans,
newest first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pymongo

from auth_billing.errors import StoreUnavailable
from auth_billing.store.connection import BATCH_TIMEOUT, StoreConnection, translated_errors
from chat_ui.history.bounds import MOST_FOUND, MOST_TERMS
from chat_ui.history.records import Conversation, Found, Owner, Wanted
from chat_ui.store.batches import insert_in_batches
from chat_ui.store.documents import conversation_document, conversation_from, of_owner, plain
from chat_ui.store.messages import COLLECTION as MESSAGES
from chat_ui.store.shares import COLLECTION as SHARES

COLLECTION = "conversations"
TRIES = 10
"""Attempts of a conditional update that fails because of concurrent updates."""
_NO_TERMS = {"terms": 0}
_DAY_MS = 86_400_000
_ABOVE_ALL, _BELOW_PINNED = "2", "0~"
_WIDER = 2
"""Factor by which each time span of a list is longer than the one before."""


class MongoConversationStore:
    """Implements `records.ConversationStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._conversations = connection.durable(COLLECTION)
        self._unjournaled = connection.unjournaled(COLLECTION)
        self._messages = connection.durable(MESSAGES)
        self._shares = connection.durable(SHARES)

    async def add(self, owner: Owner, conversation: Conversation) -> None:
        """Insert a conversation, durably."""
        with translated_errors():
            await self._conversations.insert_one(_document(owner, conversation, ()))

    async def bring(self, owner: Owner, filed: Mapping[Conversation, Collection[str]]) -> None:
        """Insert conversations, durably, each with its search terms; existing ones are left unchanged."""
        await insert_in_batches(self._conversations, (_document(owner, each, terms) for each, terms in filed.items()))

    async def find(self, owner: Owner, conversation_id: str) -> Conversation | None:
        """Return the owner's conversation with this id."""
        with translated_errors():
            document = await self._conversations.find_one(of_owner(owner, _id=conversation_id), _NO_TERMS)
        return None if document is None else conversation_from(document)

    async def some(self, owner: Owner, conversation_ids: Collection[str]) -> list[Conversation]:
        """Return those of these conversations that exist and are the owner's, in any order."""
        with translated_errors():
            found = self._conversations.find(of_owner(owner, _id={"$in": list(conversation_ids)}), _NO_TERMS)
            return [conversation_from(each) async for each in found]

    async def page(self, owner: Owner, wanted: Wanted) -> list[Conversation]:
        """Return a page of the owner's conversations, by descending `order`."""
        page: list[Conversation] = []
        for span in _spans(wanted.before, time.time()):
            matched = of_owner(owner, archived=wanted.archived, order=span)
            with translated_errors():
                found = self._conversations.find(matched, _NO_TERMS).sort("order", pymongo.DESCENDING)
                page += [conversation_from(each) async for each in found.limit(wanted.limit - len(page))]
            if len(page) == wanted.limit:
                break
        return page

    async def search(self, owner: Owner, words: Sequence[str], *, archived: bool) -> list[Found]:
        """Return the owner's conversations that contain all words (the last may be a prefix), by descending `order`."""
        *whole, last = map(re.escape, words)
        patterns = [re.compile(f" {last}"), *(re.compile(f" {word} ") for word in whole)]
        found: list[Found] = []
        for span in _spans(None, time.time()):
            # Two stages: in one filter with a pattern, the embedded store would not use the index for the span.
            stages = [
                {"$match": of_owner(owner, archived=archived, order=span)},
                {"$match": {"terms": {"$all": patterns}}},
                {"$project": {"order": 1}},
            ]
            with translated_errors(), pymongo.timeout(BATCH_TIMEOUT):
                some = [Found(each["_id"], each["order"]) async for each in self._conversations.aggregate(stages)]
            found += sorted(some, key=lambda each: each.order, reverse=True)
            if len(found) >= MOST_FOUND:
                break
        return found[:MOST_FOUND]

    async def count(self, owner: Owner) -> int:
        """Return the number of the owner's conversations, archived ones included."""
        with translated_errors(), pymongo.timeout(BATCH_TIMEOUT):
            return int(await self._conversations.count_documents(of_owner(owner)))

    async def change(
        self, owner: Owner, conversation_id: str, changes: Mapping[str, Any], grows: Mapping[str, int] | None = None
    ) -> Conversation | None:
        """Set fields by name, increment others; return the changed conversation, `None` if it does not exist."""
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
        raise StoreUnavailable("too many concurrent changes of a conversation")

    async def set_first_title(self, owner: Owner, conversation_id: str, title: str) -> bool:
        """Set the title if it is empty; return whether it was set."""
        with translated_errors():
            result = await self._conversations.update_one(
                of_owner(owner, _id=conversation_id, title=""), {"$set": {"title": title}}
            )
        return bool(result.matched_count)

    async def add_terms(self, owner: Owner, conversation_id: str, terms: Collection[str]) -> None:
        """Add search terms to those that the conversation has."""
        whole = of_owner(owner, _id=conversation_id)
        with translated_errors():
            found = await self._unjournaled.find_one(whole, {"terms": 1})
            before = {word for piece in (found or {}).get("terms", ()) for word in piece.split()}
            new = [each for each in dict.fromkeys(terms) if each not in before][: MOST_TERMS - len(before)]
            if new:
                await self._unjournaled.update_one(whole, {"$push": {"terms": {"$each": _pieces(new)}}})

    async def remove(self, owner: Owner, conversation_id: str) -> bool:
        """Delete a conversation, then its link and messages; return false if it does not exist."""
        whole = of_owner(owner, _id=conversation_id)
        with translated_errors():
            result = await self._conversations.delete_one(whole)
            await self._shares.delete_one(whole)
            await self._messages.delete_many(of_owner(owner, conversation=conversation_id))
        return bool(result.deleted_count)


def _document(owner: Owner, conversation: Conversation, terms: Collection[str]) -> dict[str, Any]:
    return {**conversation_document(owner, conversation), "terms": _pieces(list(terms)[:MOST_TERMS])}


def _pieces(terms: Sequence[str]) -> list[str]:
    """Return terms as stored: one string with a space before and after each term."""
    return [f" {' '.join(terms)} "] if terms else []


def _spans(before: str | None, now: float) -> Iterator[dict[str, str]]:
    """Yield ranges of `Conversation.order` that cover all values below `before`, in descending order.

    First pinned conversations, then the last day, the two days before it, and so on. No bound may be a prefix of an
    `order` value: in a descending index the embedded store sorts a prefix after the longer value.
    """
    upper = before or _ABOVE_ALL
    if upper > _BELOW_PINNED:
        yield {"$gte": _BELOW_PINNED, "$lt": upper}
        upper = _BELOW_PINNED
    stamp = upper[1:15]
    at, span = int(stamp) if stamp.isdecimal() else int(now * 1000), _DAY_MS
    while at > 0:
        at, span = max(0, at - span), span * _WIDER
        lower = f"0{at:014d}!"
        yield {"$gte": lower, "$lt": upper}
        upper = lower
