"""Limits and counts the bytes that a person stores: conversations, messages with their files, and imported ones.

One count per person in the store, changed by conditional updates, so that the limit holds over all gateways. Bytes are
counted before they are written, those of an answer in blocks. `Conversation.size` has the bytes of each conversation,
by which a count that a crash made wrong is corrected.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import structlog

from auth_billing.errors import StoreUnavailable
from chat_ui.errors import StorageFull
from chat_ui.history.records import Conversation, ConversationStore, Message, ModelSettings, Owner
from chat_ui.history.steps import step_bytes

_log = structlog.get_logger(__name__)

MIB = 2**20
RECORD_BYTES = 1024
"""Bytes counted for a conversation, and for each message, besides texts: its other fields and index entries."""
SMALLEST_CONVERSATION = 2 * RECORD_BYTES
"""Bytes of a conversation with one message, at least."""
ANSWER_BLOCK = 16_384
"""Bytes that are counted for an answer when it begins, and again whenever its text has filled them."""
QUIET_TIME = 300.0
"""Seconds without change before a count may be corrected: bytes that were counted may not be written yet."""


@dataclass(frozen=True)
class ByteCount:
    """The bytes that a person has stored, and when the count last changed, in Unix seconds."""

    total: int
    changed: float


class StoredBytes(Protocol):
    """Store of the bytes that each person has stored. Each method raises `StoreUnavailable`."""

    async def find(self, owner: Owner) -> ByteCount | None:
        """Return the stored count of an owner's bytes; `None` if the owner has none yet."""
        ...

    async def begin(self, owner: Owner, count: ByteCount) -> None:
        """Store an owner's first byte count; no effect if the owner has a stored count."""
        ...

    async def add(self, owner: Owner, more: int, now: float, limit: int | None = None) -> bool:
        """Add `more` bytes to an owner's stored count at `now` (Unix seconds); return whether they were added.

        Nothing changes if the count would exceed `limit`, or if there is none.
        """
        ...

    async def correct(self, owner: Owner, before: ByteCount, count: ByteCount) -> bool:
        """Replace an owner's stored count `before` by `count`; return false, and change nothing, if it has changed."""
        ...


@dataclass(eq=False, repr=False)
class StorageQuota:
    """Limits the bytes that each person stores to `limit`, over all processes that share the stores."""

    counts: StoredBytes
    conversations: ConversationStore
    limit: int

    async def used(self, owner: Owner) -> int:
        """Return how many bytes of conversations and messages an owner has stored."""
        return (await self._count(owner)).total

    async def reserve(self, owner: Owner, more: int) -> None:
        """Add `more` bytes to the count of bytes that the owner has stored, before the caller stores them.

        Raises:
            StorageFull: the owner would store more than the limit; nothing is counted.
        """
        if more and not await self.counts.add(owner, more, time.time(), self.limit):
            await self.check(owner, more)
            if not await self.counts.add(owner, more, time.time(), self.limit):
                raise self._full(await self.used(owner), more)

    async def check(self, owner: Owner, more: int) -> None:
        """Check that an owner may store `more` bytes; the bytes are not counted.

        Raises:
            StorageFull: the owner would store more than the limit.
        """
        count = await self._count(owner)
        if count.total + more > self.limit and count.changed < time.time() - QUIET_TIME:
            count = await self._correct(owner, count)
        if count.total + more > self.limit:
            raise self._full(count.total, more)

    async def release(self, owner: Owner, freed: int) -> None:
        """Subtract `freed` bytes from the count of bytes that the owner has stored, after the caller deleted them."""
        await self.counts.add(owner, -freed, time.time())

    async def assign(self, owner: Owner, conversation: str, more: int) -> None:
        """Add `more` bytes, which the owner's count includes already, to the size of a conversation.

        If the conversation was deleted, the bytes are subtracted from the count.
        """
        if await self.conversations.change(owner, conversation, {}, {"size": more}) is None:
            await self.release(owner, more)

    async def _count(self, owner: Owner) -> ByteCount:
        found = await self.counts.find(owner)
        if found is None:
            found = ByteCount(await self.conversations.stored_bytes(owner), time.time())
            await self.counts.begin(owner, found)
            found = await self.counts.find(owner) or found
        return found

    async def _correct(self, owner: Owner, count: ByteCount) -> ByteCount:
        """Replace a count by the sum over the owner's conversations; return the one that holds."""
        try:
            exact = ByteCount(await self.conversations.stored_bytes(owner), time.time())
        except StoreUnavailable as error:
            _log.warning("a person's stored bytes were not counted again", reason=str(error))
            return count
        return exact if await self.counts.correct(owner, count, exact) else count

    def _full(self, used: int, more: int) -> StorageFull:
        return StorageFull(
            f"You may store {_amount(self.limit)} of conversations and have stored {_amount(used)}; this needs "
            f"{_amount(more)}. Please delete conversations that you don't need."
        )


class AnswerBytes:
    """Counts the bytes of one answer while its steps and text grow. The first block is counted when it is requested."""

    def __init__(self, quota: StorageQuota, owner: Owner, answer: Message) -> None:
        self.owner = owner
        self._quota = quota
        self._conversation = answer.conversation
        stored = _answer_bytes(answer)
        self._counted = max(ANSWER_BLOCK, _whole_blocks(stored))
        self._room = self._counted
        self._size = stored if answer.text else 0

    async def add(self, more: int) -> None:
        """Count `more` bytes of a step or text before the answer gets them; later if the store fails.

        Raises:
            StorageFull: the owner would store more than the limit.
        """
        self._size += more
        if self._size <= self._room:
            return
        self._room = _whole_blocks(self._size)
        try:
            more = self._room - self._counted
            await self._quota.reserve(self.owner, more)
            await self._quota.assign(self.owner, self._conversation, more)
        except StoreUnavailable as error:
            _log.warning("an answer's bytes are not counted yet", reason=str(error))
        else:
            self._counted = self._room

    def restart(self) -> None:
        """Count the answer's dropped steps and text from zero again; the blocks counted for the owner stay."""
        self._size = 0

    async def end(self, answer: Message) -> None:
        """Replace the blocks counted for the answer by the bytes of the final answer's steps and text.

        Both its owner's count and its conversation's size change.
        """
        unused = self._counted - _answer_bytes(answer)
        await self._quota.release(self.owner, unused)
        await self._quota.assign(self.owner, self._conversation, -unused)


def _answer_bytes(answer: Message) -> int:
    return text_bytes(answer.text) + step_bytes(answer.steps)


def _whole_blocks(size: int) -> int:
    return -(-size // ANSWER_BLOCK) * ANSWER_BLOCK


def _amount(size: int) -> str:
    return f"{size / MIB:.1f} MiB" if size >= MIB // 10 else f"{size / 1024:.1f} KiB"


def conversation_bytes(settings: ModelSettings) -> int:
    """Return how many bytes a conversation with these settings counts in its owner's quota, without its messages."""
    return RECORD_BYTES + len(settings.system.encode(errors="replace"))


def settings_growth(before: ModelSettings, after: ModelSettings) -> int:
    """Return how many more bytes to count in the owner's quota when a conversation's settings are replaced, 0 or more.

    A shorter system prompt frees nothing until the conversation is deleted: concurrent changes would free it twice.
    """
    return max(0, conversation_bytes(after) - conversation_bytes(before))


def message_bytes(message: Message) -> int:
    """Return how many bytes a message counts in its owner's quota; its files must have their texts.

    Files of images are counted as stored objects (`stored_objects.objects.quota`).
    """
    files = sum(text_bytes(each.text) + text_bytes(each.name) for each in message.attachments)
    files += sum(text_bytes(each.name) for each in message.images)
    system = "" if message.settings is None else message.settings.system
    return RECORD_BYTES + _answer_bytes(message) + files + text_bytes(system)


def whole_bytes(conversation: Conversation, messages: Iterable[Message]) -> int:
    """Return how many bytes a conversation with all its messages counts in its owner's quota."""
    return conversation_bytes(conversation.settings) + sum(map(message_bytes, messages))


def text_bytes(text: str) -> int:
    """Return how many bytes a text counts in its owner's quota: its length in UTF-8."""
    return len(text.encode(errors="replace"))
