"""The quota of conversations per person, checked against a cached count, because counting in the store is slow.

Between two counts only additions of this process are seen; deletions and other processes' additions are seen late. The
quota protects the store from being filled and need not be exact.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from chat_ui.errors import ConversationFull
from chat_ui.history.limits import MAX_CONVERSATIONS
from chat_ui.history.records import ConversationStore, Owner

COUNT_TTL_SECONDS = 600.0
"""For how long a count is used before the store counts again."""
MAX_CACHED = 10_000
"""Owners whose count is cached, the most recently used."""


class ConversationQuota:
    """Limits each owner to `MAX_CONVERSATIONS` conversations, by a count cached in this process."""

    def __init__(self, conversations: ConversationStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._conversations = conversations
        self._clock = clock
        self._counts: OrderedDict[Owner, tuple[float, int]] = OrderedDict()

    async def reserve(self, owner: Owner, more: int) -> None:
        """Count `more` conversations, which the caller is about to create, against the owner's quota.

        Raises:
            ConversationFull: the quota would be exceeded.
        """
        counted_at, count = self._counts.get(owner, (0.0, 0))
        if (
            owner not in self._counts
            or counted_at + COUNT_TTL_SECONDS < self._clock()
            or count + more > MAX_CONVERSATIONS
        ):
            counted_at, count = self._clock(), await self._conversations.count(owner)
        if count + more > MAX_CONVERSATIONS:
            raise ConversationFull(f"You have {count} conversations, and may have {MAX_CONVERSATIONS}.")
        self._counts[owner] = (counted_at, count + more)
        self._counts.move_to_end(owner)
        while len(self._counts) > MAX_CACHED:
            self._counts.popitem(last=False)
