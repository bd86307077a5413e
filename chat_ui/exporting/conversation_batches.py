"""Loads the conversations of an export with their messages, in batches that fit into memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from chat_ui.history.conversation_lists import ConversationLists
from chat_ui.history.records import Conversation, Message, Owner

PAGE_SIZE = 100
"""Conversations per page when all of them are listed."""
BATCH_SIZE = 25
"""Conversations in a batch, at most."""
BATCH_BYTES = 2 * 1_048_576
"""Text bytes in a batch, at most, unless one conversation alone has more."""

FullConversation = tuple[Conversation, Sequence[Message]]
"""A conversation with all its messages, oldest first."""
Batches = AsyncIterator[Sequence[FullConversation]]


async def conversation_batches(
    lists: ConversationLists, owner: Owner, chosen: Sequence[Conversation] | None
) -> Batches:
    """Yield `chosen` conversations, or (`None`) all of the owner's, with messages in batches that fit into memory."""
    batch: list[Conversation] = []
    size = 0
    async for conversation in _listed(lists, owner, chosen):
        if batch and (len(batch) == BATCH_SIZE or size + conversation.size > BATCH_BYTES):
            yield await lists.with_messages(owner, batch)
            batch, size = [], 0
        batch.append(conversation)
        size += conversation.size
    if batch:
        yield await lists.with_messages(owner, batch)


async def _listed(
    lists: ConversationLists, owner: Owner, chosen: Sequence[Conversation] | None
) -> AsyncIterator[Conversation]:
    if chosen is not None:
        for conversation in chosen:
            yield conversation
        return
    for archived in (False, True):
        before = None
        while True:
            page = await lists.page(owner, archived=archived, before=before, limit=PAGE_SIZE)
            for row in page.rows:
                yield row.conversation
            if (before := page.next) is None:
                break
