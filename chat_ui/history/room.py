"""How many conversations people may still have. Counting takes the store long, so it is done now and then.

In between what this process adds is added up. Others add too, and what is deleted is seen late: the bound keeps a
store from being filled, and need not be exact.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from chat_ui.errors import ConversationFull
from chat_ui.history.bounds import MOST_CONVERSATIONS
from chat_ui.history.records import ConversationStore, Owner

COUNTED_SECONDS = 600.0
REMEMBERED = 10_000
"""People whose count is kept, the latest."""


class Room:
    """What is left for each person."""

    def __init__(self, conversations: ConversationStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._conversations = conversations
        self._clock = clock
        self._counts: OrderedDict[Owner, tuple[float, int]] = OrderedDict()

    async def take(self, owner: Owner, more: int) -> None:
        """Have room for so many more.

        Raises:
            ConversationFull: there is not as much.
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
