"""Limits conversations per person, roughly: a count cached per process for 10 minutes, renewed before a refusal.

The limit protects the store from being filled and need not be exact. Between two counts only additions of this process
are seen; deletions and other processes' additions are seen late. Counting in the store is slow.
"""

from __future__ import annotations

import time

from auth_billing.ttl_cache import TtlCache
from chat_ui.errors import ConversationFull
from chat_ui.history.limits import MAX_CONVERSATIONS
from chat_ui.history.records import ConversationStore, Owner

COUNT_TTL = 600.0
"""Seconds for which a count is used before the store counts again."""
MAX_CACHED = 10_000
"""Owners whose count is cached, the last counted."""


class ConversationQuota:
    """Limits each owner to `MAX_CONVERSATIONS` conversations, by a count cached in this process."""

    def __init__(self, conversations: ConversationStore) -> None:
        self._conversations = conversations
        self._counts: TtlCache[Owner, int] = TtlCache(COUNT_TTL, MAX_CACHED, time.monotonic)

    async def reserve(self, owner: Owner, more: int) -> None:
        """Count `more` conversations, which the caller will create, in this process's cached count of the owner's.

        Approximate: other processes' additions are seen up to `COUNT_TTL` seconds late. Conversations are counted again
        before the owner is refused.

        Raises:
            ConversationFull: the owner would have more than `MAX_CONVERSATIONS`.
        """
        count = self._counts.get(owner)
        if count is None or count + more > MAX_CONVERSATIONS:
            count = await self._conversations.count(owner)
            self._counts.put(owner, count)
        if count + more > MAX_CONVERSATIONS:
            raise ConversationFull(f"You have {count} conversations, and may have {MAX_CONVERSATIONS}.")
        self._counts.replace(owner, count + more)
