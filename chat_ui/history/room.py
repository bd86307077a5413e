"""The quota of conversations per person, checked against a cached count, because counting in the store is slow.

Between two counts only additions of this process are seen; deletions and other processes' additions are seen late. The
quota protects the store from being filled and need not be exact.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from chat_ui.errors import ConversationFull
from chat_ui.history.bounds import MOST_CONVERSATIONS
from chat_ui.history.records import ConversationStore, Owner

COUNTED_SECONDS = 600.0
"""For how long a count is used before the store counts again."""
REMEMBERED = 10_000
"""Owners whose count is cached, the most recently used."""


class Room:
    """Limits the number of conversations of each owner."""

    def __init__(self, conversations: ConversationStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._conversations = conversations
        self._clock = clock
        self._counts: OrderedDict[Owner, tuple[float, int]] = OrderedDict()

    async def take(self, owner: Owner, more: int) -> None:
        """Count `more` new conversations against the owner's quota.

        Raises:
            ConversationFull: the quota would be exceeded.
        """
        counted, there = self._counts.get(owner, (0.0, 0))
        if owner not in self._counts or counted + COUNTED_SECONDS < self._clock() or there + more > MOST_CONVERSATIONS:
            counted, there = self._clock(), await self._conversations.count(owner)
        if there + more > MOST_CONVERSATIONS:
            raise ConversationFull(f"You have {there} conversations, and may have {MOST_CONVERSATIONS}.")
        self._counts[owner] = (counted, there + more)
        self._counts.move_to_end(owner)
        while len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)
