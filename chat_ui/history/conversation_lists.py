"""Reads a person's conversations: lists by page, full-text search, and complete conversations for export."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from chat_ui.history.records import Conversation, ConversationStore, Message, MessageStore, Owner, PageQuery
from chat_ui.history.search_terms import accent_insensitive_pattern, excerpt, query_words


@dataclass(frozen=True)
class ListedConversation:
    """A conversation in a list; `match` is an excerpt around the search words."""

    conversation: Conversation
    running: bool
    match: str | None = None


@dataclass(frozen=True)
class ListPage:
    """A page of a list; `next` is the cursor of the next page, `None` on the last one."""

    rows: Sequence[ListedConversation]
    next: str | None
    total: int | None
    """Number of search results; `None` for lists."""


class ConversationLists:
    """Lists and searches conversations; every method takes the owner whose conversations it reads."""

    def __init__(self, conversations: ConversationStore, messages: MessageStore) -> None:
        self._conversations = conversations
        self._messages = messages

    async def page(self, owner: Owner, *, archived: bool, before: str | None, limit: int) -> ListPage:
        """Return a page of up to `limit` of the owner's archived or other conversations, pinned first, then newest.

        `before`: the `next` of the page before; `None`: the first page.
        """
        found = await self._conversations.page(owner, PageQuery(archived, limit + 1, before))
        following = found[limit - 1].order if len(found) > limit else None
        return ListPage(await self._rows(owner, found[:limit], ()), following, None)

    async def search(self, owner: Owner, query: str, *, archived: bool, before: str | None, limit: int) -> ListPage:
        """Return a page of the owner's conversations with all words of `query` and excerpts, pinned first, then newest.

        The last word may be a prefix. `before`: the `next` of the page before; `None`: the first page.
        """
        words = query_words(query)
        found = await self._conversations.search(owner, words, archived=archived) if words else []
        rest = [each for each in found if before is None or each.order < before]
        shown = {
            each.id: each for each in await self._conversations.find_many(owner, [each.id for each in rest[:limit]])
        }
        conversations = [shown[each.id] for each in rest[:limit] if each.id in shown]
        following = rest[limit - 1].order if len(rest) > limit else None
        return ListPage(await self._rows(owner, conversations, words), following, len(found))

    async def with_messages(
        self, owner: Owner, conversations: Sequence[Conversation]
    ) -> list[tuple[Conversation, list[Message]]]:
        """Return each given conversation with all its messages, oldest first, with the text of their attachments."""
        found: dict[str, list[Message]] = {each.id: [] for each in conversations}
        for message in await self._messages.all_with_files(owner, list(found)):
            found[message.conversation].append(message)
        return [(each, sorted(found[each.id], key=lambda one: (one.created, one.id))) for each in conversations]

    async def _rows(
        self, owner: Owner, shown: Sequence[Conversation], words: Collection[str]
    ) -> list[ListedConversation]:
        running = await self._messages.with_open_answers(owner, [each.id for each in shown]) if shown else set()
        matches = await self._matches(owner, shown, words) if words and shown else {}
        return [ListedConversation(each, each.id in running, matches.get(each.id)) for each in shown]

    async def _matches(self, owner: Owner, shown: Sequence[Conversation], words: Collection[str]) -> dict[str, str]:
        """Return excerpts around the search words, by conversation id."""
        longest = sorted(words, key=len, reverse=True)
        texts = await self._messages.matching_texts(
            owner, [each.id for each in shown], accent_insensitive_pattern(longest[0])
        )
        matches: dict[str, str] = {}
        for conversation_id, text in texts:
            if conversation_id not in matches and (found := excerpt(text, longest)) is not None:
                matches[conversation_id] = found
        return matches
