"""Conversations in MongoDB: `conversations {_id, organisation, user, ..., order, terms}`, messages in `messages.py`.

`terms` are the words that one is found by, as pieces of text without an index: `[" one two three ", " four "]`. The
embedded store has no text index, and an index of words costs it thirty microseconds for each word that is written:
more than all else of a conversation together. To look through an owner's costs a hundred a conversation.

It also reads all that its index gives before it sorts or cuts, so lists are read in spans of time, the latest first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pymongo

from auth_billing.errors import StoreUnavailable
from auth_billing.store.connection import BATCH_SECONDS, StoreConnection, translated_errors
from chat_ui.history.bounds import MOST_FOUND, MOST_TERMS
from chat_ui.history.records import Conversation, Found, Owner, Wanted
from chat_ui.store.batches import insert_in_batches
from chat_ui.store.documents import conversation_document, conversation_from, of_owner, plain
from chat_ui.store.messages import COLLECTION as MESSAGES
from chat_ui.store.shares import COLLECTION as SHARES

COLLECTION = "conversations"
TRIES = 10
"""Of a change that only fails because somebody else has just made one."""
_NO_TERMS = {"terms": 0}
_DAY_MS = 86_400_000
_ABOVE_ALL, _BELOW_PINNED = "2", "0~"
_WIDER = 2
"""Each span of a list is so many times as long as the one before."""


class MongoConversationStore:
    """Implements `records.ConversationStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._conversations = connection.durable(COLLECTION)
        self._passing = connection.passing(COLLECTION)
        self._messages = connection.durable(MESSAGES)
        self._shares = connection.durable(SHARES)

    async def add(self, owner: Owner, conversation: Conversation) -> None:
        """Store a new one, durably."""
        with translated_errors():
            await self._conversations.insert_one(_document(owner, conversation, ()))

    async def bring(self, owner: Owner, filed: Mapping[Conversation, Collection[str]]) -> None:
        """Store many, durably, each with the terms that it is found by; those that are there already stay."""
        await insert_in_batches(self._conversations, (_document(owner, each, terms) for each, terms in filed.items()))

    async def find(self, owner: Owner, conversation_id: str) -> Conversation | None:
        """One of the owner's."""
        with translated_errors():
            document = await self._conversations.find_one(of_owner(owner, _id=conversation_id), _NO_TERMS)
        return None if document is None else conversation_from(document)

    async def some(self, owner: Owner, conversation_ids: Collection[str]) -> list[Conversation]:
        """Those of these that are the owner's, in any order."""
        with translated_errors():
            found = self._conversations.find(of_owner(owner, _id={"$in": list(conversation_ids)}), _NO_TERMS)
            return [conversation_from(each) async for each in found]

    async def page(self, owner: Owner, wanted: Wanted) -> list[Conversation]:
        """Some of the owner's, greatest `order` first."""
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
        """Which of the owner's have all words (the last one: or a longer one), greatest `order` first."""
        *whole, last = map(re.escape, words)
        patterns = [re.compile(f" {last}"), *(re.compile(f" {word} ") for word in whole)]
        found: list[Found] = []
        for span in _spans(None, time.time()):
            # Two stages: with a pattern beside it the embedded store would not use the index for the span.
            stages = [
                {"$match": of_owner(owner, archived=archived, order=span)},
                {"$match": {"terms": {"$all": patterns}}},
                {"$project": {"order": 1}},
            ]
            with translated_errors(), pymongo.timeout(BATCH_SECONDS):
                some = [Found(each["_id"], each["order"]) async for each in self._conversations.aggregate(stages)]
            found += sorted(some, key=lambda each: each.order, reverse=True)
            if len(found) >= MOST_FOUND:
                break
        return found[:MOST_FOUND]

    async def count(self, owner: Owner) -> int:
        """How many the owner has."""
        with translated_errors(), pymongo.timeout(BATCH_SECONDS):
            return int(await self._conversations.count_documents(of_owner(owner)))

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
        whole = of_owner(owner, _id=conversation_id)
        with translated_errors():
            found = await self._passing.find_one(whole, {"terms": 1})
            before = {word for piece in (found or {}).get("terms", ()) for word in piece.split()}
            new = [each for each in dict.fromkeys(terms) if each not in before][: MOST_TERMS - len(before)]
            if new:
                await self._passing.update_one(whole, {"$push": {"terms": {"$each": _pieces(new)}}})

    async def remove(self, owner: Owner, conversation_id: str) -> bool:
        """Delete it with its messages; false if there was none. It goes first: nothing leads to the rest then."""
        whole = of_owner(owner, _id=conversation_id)
        with translated_errors():
            result = await self._conversations.delete_one(whole)
            await self._shares.delete_one(whole)
            await self._messages.delete_many(of_owner(owner, conversation=conversation_id))
        return bool(result.deleted_count)


def _document(owner: Owner, conversation: Conversation, terms: Collection[str]) -> dict[str, Any]:
    return {**conversation_document(owner, conversation), "terms": _pieces(list(terms)[:MOST_TERMS])}


def _pieces(terms: Sequence[str]) -> list[str]:
    """Terms as they are stored: a blank before and behind each."""
    return [f" {' '.join(terms)} "] if terms else []


def _spans(before: str | None, now: float) -> Iterator[dict[str, str]]:
    """Ranges of `Conversation.order` that have all below `before` in them, the greatest first: pinned ones, then the
    latest day, the two days before, and so on. No bound is the beginning of an order: in an index that goes down the
    embedded store takes such a one for the greater.
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
