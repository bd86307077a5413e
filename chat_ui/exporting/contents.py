"""Loads the conversations of an export with their messages, in groups that fit into memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from chat_ui.history.listing import Listing
from chat_ui.history.records import Conversation, Message, Owner

PAGE = 100
"""Conversations per page when all of them are listed."""
GROUP = 25
"""Conversations in a group, at most."""
GROUP_BYTES = 2 * 1_048_576
"""Text bytes in a group, at most, unless one conversation alone has more."""

Whole = tuple[Conversation, Sequence[Message]]
"""A conversation with all its messages, oldest first."""
Groups = AsyncIterator[Sequence[Whole]]


async def contents(listing: Listing, owner: Owner, chosen: Sequence[Conversation] | None) -> Groups:
    """Yield the chosen conversations in groups; `None`: all conversations of the owner, archived ones too."""
    group: list[Conversation] = []
    size = 0
    async for conversation in _listed(listing, owner, chosen):
        if group and (len(group) == GROUP or size + conversation.size > GROUP_BYTES):
            yield await listing.whole(owner, group)
            group, size = [], 0
        group.append(conversation)
        size += conversation.size
    if group:
        yield await listing.whole(owner, group)


async def _listed(listing: Listing, owner: Owner, chosen: Sequence[Conversation] | None) -> AsyncIterator[Conversation]:
    if chosen is not None:
        for conversation in chosen:
            yield conversation
        return
    for archived in (False, True):
        before = None
        while True:
            page = await listing.page(owner, archived=archived, before=before, limit=PAGE)
            for row in page.rows:
                yield row.conversation
            if (before := page.next) is None:
                break
