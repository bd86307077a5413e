"""The limit of bytes that a person stores: conversations, messages with their files, and imported ones.

One count per person in the store, changed by conditional updates, so that the limit holds over all gateways. Bytes are
counted before they are written, except an answer's text, which is counted at its end. `Conversation.size` has the bytes
of each conversation, so a count that a crash made wrong is corrected before a person is refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Protocol

import structlog

from auth_billing.errors import StoreUnavailable
from auth_billing.ttl_cache import TtlCache
from chat_ui.errors import StorageFull
from chat_ui.history.records import Conversation, ConversationStore, Message, ModelSettings, Owner

MIB = 2**20
RECORD_BYTES = 1024
"""Bytes counted for a conversation, and for each message, besides texts: its other fields and index entries."""
SMALLEST_CONVERSATION = 2 * RECORD_BYTES
"""Bytes of a conversation with one message, at least."""
RECOUNT_INTERVAL = 600.0
"""Seconds between two corrections of a person's count by one process, at least."""
MAX_CACHED = 10_000

_log = structlog.get_logger(__name__)


class StoredBytes(Protocol):
    """Store of the bytes that each person has stored. Each method raises `StoreUnavailable`."""

    async def find(self, owner: Owner) -> int | None:
        """Return the owner's count; `None` if the owner has none yet."""
        ...

    async def begin(self, owner: Owner, stored: int) -> None:
        """Store the owner's first count; does nothing if there is one."""
        ...

    async def add(self, owner: Owner, more: int, limit: int | None = None) -> bool:
        """Add to the count; return false and change nothing if it would exceed `limit`, or if there is none."""
        ...

    async def correct(self, owner: Owner, before: int, stored: int) -> bool:
        """Replace the count `before`; return false and change nothing if the count has changed."""
        ...


class StorageQuota:
    """Limits the bytes that each person stores to `limit`, over all processes that share the stores."""

    def __init__(self, counts: StoredBytes, conversations: ConversationStore, limit: int) -> None:
        self.limit = limit
        self._counts = counts
        self._conversations = conversations
        self._corrected: TtlCache[Owner, bool] = TtlCache(RECOUNT_INTERVAL, MAX_CACHED, time.monotonic)

    async def used(self, owner: Owner) -> int:
        """Return the bytes that the owner has stored."""
        found = await self._counts.find(owner)
        if found is None:
            await self._counts.begin(owner, await self._conversations.stored_bytes(owner))
            found = await self._counts.find(owner)
        return max(0, found or 0)

    async def reserve(self, owner: Owner, more: int) -> None:
        """Count `more` bytes, before the caller writes them.

        Raises:
            StorageFull: the owner would store more than the limit; nothing is counted.
        """
        if more and not await self._counts.add(owner, more, self.limit):
            await self.check(owner, more)
            if not await self._counts.add(owner, more, self.limit):
                raise self._full(await self.used(owner), more)

    async def check(self, owner: Owner, more: int) -> None:
        """Require that `more` bytes fit, without counting them.

        Raises:
            StorageFull: the owner would store more than the limit.
        """
        used = await self.used(owner)
        if used + more > self.limit and self._corrected.get(owner) is None:
            used = await self._correct(owner, used)
        if used + more > self.limit:
            raise self._full(used, more)

    async def release(self, owner: Owner, freed: int) -> None:
        """Count `freed` bytes less, after the caller deleted them."""
        await self._counts.add(owner, -freed)

    async def count_answer(self, owner: Owner, answer: Message) -> None:
        """Count the text of an answer that has ended, for its conversation and its owner; it is stored already."""
        more = len(answer.text.encode())
        await self._counts.add(owner, more)
        if await self._conversations.change(owner, answer.conversation, {}, {"size": more}) is None:
            await self.release(owner, more)

    async def _correct(self, owner: Owner, used: int) -> int:
        self._corrected.put(owner, True)
        try:
            stored = await self._conversations.stored_bytes(owner)
        except StoreUnavailable as error:
            _log.warning("a person's stored bytes were not counted again", reason=str(error))
            return used
        return stored if await self._counts.correct(owner, used, stored) else used

    def _full(self, used: int, more: int) -> StorageFull:
        return StorageFull(
            f"You may store {_amount(self.limit)} of conversations and have stored {_amount(used)}; this needs "
            f"{_amount(more)}. Please delete conversations that you don't need."
        )


def _amount(size: int) -> str:
    return f"{size / MIB:.1f} MiB" if size >= MIB // 10 else f"{size / 1024:.1f} KiB"


def conversation_bytes(settings: ModelSettings) -> int:
    """Return the bytes that a conversation with these settings is counted for, without its messages."""
    return RECORD_BYTES + len(settings.system.encode(errors="replace"))


def settings_growth(before: ModelSettings, after: ModelSettings) -> int:
    """Return the bytes to count when a conversation's settings are replaced.

    A shorter system prompt frees nothing until the conversation is deleted: concurrent changes would free it twice.
    """
    return max(0, conversation_bytes(after) - conversation_bytes(before))


def message_bytes(message: Message) -> int:
    """Return the bytes that a message is counted for; its files must have their texts."""
    files = sum(_length(each.text) + _length(each.name) for each in message.attachments)
    system = "" if message.settings is None else message.settings.system
    return RECORD_BYTES + _length(message.text) + files + _length(system)


def whole_bytes(conversation: Conversation, messages: Iterable[Message]) -> int:
    """Return the bytes that a conversation is counted for, with all its messages."""
    return conversation_bytes(conversation.settings) + sum(map(message_bytes, messages))


def _length(text: str) -> int:
    return len(text.encode(errors="replace"))
