"""MongoDB store of conversations: `conversations {_id, organisation, user, ..., order, terms}`.

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
from auth_billing.store.connection import BATCH_TIMEOUT, StoreConnection
from chat_ui.history.limits import MAX_RESULTS, MAX_TERMS
from chat_ui.history.records import Conversation, Owner, PageQuery, SearchResult
from chat_ui.store.batch_insertion import insert_missing
from chat_ui.store.documents import conversation_document, conversation_from, owned_by, to_stored
from chat_ui.store.messages import COLLECTION as MESSAGES
from chat_ui.store.shares import COLLECTION as SHARES

COLLECTION = "conversations"
MAX_ATTEMPTS = 10
"""Attempts of a conditional update that fails because of concurrent updates."""
_NO_TERMS = {"terms": 0}
_DAY_MS = 86_400_000
_ABOVE_ALL, _BELOW_PINNED = "2", "0~"
_SPAN_FACTOR = 2
"""Factor by which each time span of a list is longer than the one before."""


class MongoConversationStore:
    """MongoDB implementation of `history.records.ConversationStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._conversations = connection.durable(COLLECTION)
        self._unjournaled = connection.unjournaled(COLLECTION)
        self._messages = connection.durable(MESSAGES)
        self._shares = connection.durable(SHARES)

    async def add(self, owner: Owner, conversation: Conversation) -> None:
        """Store a new conversation of the owner durably."""
        await self._conversations.insert_one(_document(owner, conversation, ()))

    async def add_missing(self, owner: Owner, search_terms: Mapping[Conversation, Collection[str]]) -> None:
        """Store conversations of the owner durably, each with its search terms; existing ones are left unchanged."""
        await insert_missing(
            self._conversations, (_document(owner, each, terms) for each, terms in search_terms.items())
        )

    async def find(self, owner: Owner, conversation_id: str) -> Conversation | None:
        """Return the owner's conversation with this id, without its messages; `None` if there is none."""
        wanted = owned_by(owner, _id=conversation_id)
        return await self._conversations.find_record(conversation_from, wanted, _NO_TERMS)

    async def find_many(self, owner: Owner, conversation_ids: Collection[str]) -> list[Conversation]:
        """Return those of the conversations with these ids that exist and are the owner's, in any order."""
        found = self._conversations.find(owned_by(owner, _id={"$in": list(conversation_ids)}), _NO_TERMS)
        return [conversation_from(each) async for each in found]

    async def page(self, owner: Owner, wanted: PageQuery) -> list[Conversation]:
        """Return the page of the owner's conversations that `wanted` describes, by descending `Conversation.order`."""
        page: list[Conversation] = []
        for span in _spans(wanted.before, time.time()):
            matched = owned_by(owner, archived=wanted.archived, order=span)
            found = self._conversations.find(matched, _NO_TERMS).sort("order", pymongo.DESCENDING)
            page += [conversation_from(each) async for each in found.limit(wanted.limit - len(page))]
            if len(page) == wanted.limit:
                break
        return page

    async def search(self, owner: Owner, words: Sequence[str], *, archived: bool) -> list[SearchResult]:
        """Return the owner's conversations that contain all of the normalised `words`, by descending `order`.

        The last word may be a prefix; at most `MAX_RESULTS` conversations are returned.
        """
        *whole, last = map(re.escape, words)
        patterns = [re.compile(f" {last}"), *(re.compile(f" {word} ") for word in whole)]
        found: list[SearchResult] = []
        for span in _spans(None, time.time()):
            # Two stages: in one filter with a pattern, the embedded store would not use the index for the span.
            stages = [
                {"$match": owned_by(owner, archived=archived, order=span)},
                {"$match": {"terms": {"$all": patterns}}},
                {"$project": {"order": 1}},
            ]
            with pymongo.timeout(BATCH_TIMEOUT):
                some = [
                    SearchResult(each["_id"], each["order"]) async for each in self._conversations.aggregate(stages)
                ]
            found += sorted(some, key=lambda each: each.order, reverse=True)
            if len(found) >= MAX_RESULTS:
                break
        return found[:MAX_RESULTS]

    async def count(self, owner: Owner) -> int:
        """Return the number of the owner's conversations, archived ones included."""
        with pymongo.timeout(BATCH_TIMEOUT):
            return int(await self._conversations.count_documents(owned_by(owner)))

    async def stored_bytes(self, owner: Owner) -> int:
        """Return the bytes that all conversations of the owner are counted for: the sum of their `size`."""
        stages = [{"$match": owned_by(owner)}, {"$group": {"_id": None, "size": {"$sum": "$size"}}}]
        with pymongo.timeout(BATCH_TIMEOUT):
            return sum([int(each["size"]) async for each in self._conversations.aggregate(stages)])

    async def change(
        self,
        owner: Owner,
        conversation_id: str,
        changes: Mapping[str, Any],
        increments: Mapping[str, int] | None = None,
    ) -> Conversation | None:
        """Set the fields of a conversation in `changes`, by name, and add `increments` to `messages` and `size`.

        Returns the changed conversation, `None` if the owner has none with this id.

        Raises:
            StoreUnavailable: the store does not answer, or too many other changes of the conversation run.
        """
        for _ in range(MAX_ATTEMPTS):
            before = await self.find(owner, conversation_id)
            if before is None:
                return None
            stored = {name: to_stored(value) for name, value in changes.items()}
            update: dict[str, Any] = {"$set": {**stored, "order": replace(before, **changes).order}}
            if increments:
                update["$inc"] = dict(increments)
            unchanged = owned_by(owner, _id=conversation_id, order=before.order)
            if await self._conversations.update_matching(unchanged, update):
                return await self.find(owner, conversation_id)
        raise StoreUnavailable("too many concurrent changes of a conversation")

    async def set_initial_title(self, owner: Owner, conversation_id: str, title: str) -> bool:
        """Set a conversation's title if it has none; return whether the title was set."""
        return await self._conversations.update_matching(
            owned_by(owner, _id=conversation_id, title=""), {"$set": {"title": title}}
        )

    async def add_terms(self, owner: Owner, conversation_id: str, terms: Collection[str]) -> None:
        """Add search terms to a conversation, by which `search` finds it; earlier terms stay."""
        whole = owned_by(owner, _id=conversation_id)
        found = await self._unjournaled.find_one(whole, {"terms": 1})
        before = {word for piece in (found or {}).get("terms", ()) for word in piece.split()}
        new = [each for each in dict.fromkeys(terms) if each not in before][: MAX_TERMS - len(before)]
        if new:
            await self._unjournaled.update_one(whole, {"$push": {"terms": {"$each": _pieces(new)}}})

    async def remove(self, owner: Owner, conversation_id: str) -> bool:
        """Delete a conversation, then its share link and messages; return false if the owner has none with this id."""
        whole = owned_by(owner, _id=conversation_id)
        result = await self._conversations.delete_one(whole)
        await self._shares.delete_one(whole)
        await self._messages.delete_many(owned_by(owner, conversation=conversation_id))
        return bool(result.deleted_count)


def _document(owner: Owner, conversation: Conversation, terms: Collection[str]) -> dict[str, Any]:
    return {**conversation_document(owner, conversation), "terms": _pieces(list(terms)[:MAX_TERMS])}


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
        at, span = max(0, at - span), span * _SPAN_FACTOR
        lower = f"0{at:014d}!"
        yield {"$gte": lower, "$lt": upper}
        upper = lower
