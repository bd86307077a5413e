"""Finds a person's conversations: in pages, by what was said in them, or whole. Changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from chat_ui.history.records import Conversation, ConversationStore, Message, MessageStore, Owner, Wanted
from chat_ui.history.terms import excerpt, pattern_of, words_of


@dataclass(frozen=True)
class Row:
    """A conversation in a list."""

    conversation: Conversation
    running: bool
    match: str | None = None


@dataclass(frozen=True)
class Page:
    """Some conversations of a list."""

    rows: Sequence[Row]
    next: str | None
    total: int | None
    """How many a search has found."""


class Listing:
    """The lists of everybody. Each call is for one owner."""

    def __init__(self, conversations: ConversationStore, messages: MessageStore) -> None:
        self._conversations = conversations
        self._messages = messages

    async def page(self, owner: Owner, *, archived: bool, before: str | None, limit: int) -> Page:
        """Some of a list, the latest first."""
        found = await self._conversations.page(owner, Wanted(archived, limit + 1, before))
        following = found[limit - 1].order if len(found) > limit else None
        return Page(await self._rows(owner, found[:limit], ()), following, None)

    async def search(self, owner: Owner, query: str, *, archived: bool, before: str | None, limit: int) -> Page:
        """Some of those that all words of `query` are in (the last one may be unfinished), the latest first."""
        words = words_of(query)
        found = await self._conversations.search(owner, words, archived=archived) if words else []
        rest = [each for each in found if before is None or each.order < before]
        shown = {each.id: each for each in await self._conversations.some(owner, [each.id for each in rest[:limit]])}
        conversations = [shown[each.id] for each in rest[:limit] if each.id in shown]
        following = rest[limit - 1].order if len(rest) > limit else None
        return Page(await self._rows(owner, conversations, words), following, len(found))

    async def whole(
        self, owner: Owner, conversations: Sequence[Conversation]
    ) -> list[tuple[Conversation, list[Message]]]:
        """Conversations, each with its messages as they were written, with the text of their files."""
        found: dict[str, list[Message]] = {each.id: [] for each in conversations}
        for message in await self._messages.whole(owner, list(found)):
            found[message.conversation].append(message)
        return [(each, sorted(found[each.id], key=lambda one: (one.created, one.id))) for each in conversations]

    async def _rows(self, owner: Owner, shown: Sequence[Conversation], words: Collection[str]) -> list[Row]:
        running = await self._messages.open_in(owner, [each.id for each in shown]) if shown else set()
        matches = await self._matches(owner, shown, words) if words and shown else {}
        return [Row(each, each.id in running, matches.get(each.id)) for each in shown]

    async def _matches(self, owner: Owner, shown: Sequence[Conversation], words: Collection[str]) -> dict[str, str]:
        """Excerpts around what was searched for, by conversation."""
        longest = sorted(words, key=len, reverse=True)
        texts = await self._messages.containing(owner, [each.id for each in shown], pattern_of(longest[0]))
        matches: dict[str, str] = {}
        for conversation_id, text in texts:
            if conversation_id not in matches and (found := excerpt(text, longest)) is not None:
                matches[conversation_id] = found
        return matches
