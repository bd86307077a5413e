"""Writes the conversations of one import to the store, batch by batch, so that a crash leaves no partial conversation.

The ids of a batch are recorded first, then its messages are stored, then its conversations. After a crash, messages
whose conversation was not stored are deleted by the next import or by the clean-up scan.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import structlog

from auth_billing.errors import StoreUnavailable
from auth_billing.retry import exponential_delay
from chat_ui.history.records import ConversationStore, MessageStore, Owner
from chat_ui.importing.frames import Batch, Taken
from chat_ui.importing.records import Import, ImportState, ImportStore

LEASE_SECONDS = 60.0
"""Duration of an import's lease; after it an import without renewal counts as abandoned."""
PATIENCE_SECONDS = 30.0
"""For how long a write is retried while the store does not answer."""
MOST_SKIPPED = 100
"""Skipped conversations that are recorded."""

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Superseded(Exception):
    """Another import has replaced this one after its lease expired."""


@dataclass(frozen=True)
class Shelves:
    """The stores that an import writes to, and the clock (Unix seconds)."""

    conversations: ConversationStore
    messages: MessageStore
    imports: ImportStore
    clock: Callable[[], float] = time.time


class TakingIn:
    """Writes one import. `at` is the import's record with its progress."""

    def __init__(self, shelves: Shelves, owner: Owner, at: Import) -> None:
        self.owner = owner
        self.at = at
        self._shelves = shelves

    async def run(self, batches: AsyncIterator[Batch]) -> None:
        """Store all batches.

        Raises:
            StoreUnavailable: the store did not answer for `PATIENCE_SECONDS`.
            RecordRefused: the store refuses a record permanently.
            Superseded: another import has replaced this one.
        """
        await self.clear()
        async for batch in batches:
            await self._take(batch)

    async def clear(self) -> None:
        """Delete messages without a conversation, of this import or of the one before.

        Raises:
            StoreUnavailable
        """
        if self.at.writing:
            found = await self._shelves.conversations.some(self.owner, self.at.writing)
            halves = set(self.at.writing) - {each.id for each in found}
            await self._shelves.messages.discard(self.owner, halves)
            self.at = replace(self.at, writing=[])

    async def end(self, state: ImportState) -> None:
        """Store the final state; if messages without a conversation remain, the clean-up scan will delete them.

        Raises:
            StoreUnavailable
        """
        left = self._shelves.clock() if self.at.writing else 0.0
        self.at = replace(self.at, state=state, until=left)
        await self._shelves.imports.keep(self.owner, self.at)

    async def _take(self, batch: Batch) -> None:
        new = await self._patiently(partial(self._new, batch.taken))
        await self._keep(replace(self.at, writing=[each.conversation.id for each in new]))
        await self._patiently(partial(self._write, new))
        at = self.at
        self.at = replace(
            at,
            done=at.done + len(batch.taken) + len(batch.skipped),
            imported=at.imported + len(new),
            known=at.known + len(batch.taken) - len(new),
            skipped=[*at.skipped, *batch.skipped][:MOST_SKIPPED],
            writing=[],
        )

    async def _new(self, taken: Sequence[Taken]) -> list[Taken]:
        """Return the conversations that the owner does not have, without duplicates."""
        by_id = {each.conversation.id: each for each in taken}
        origins = [each.origin for each in taken if each.origin is not None]
        found = await self._shelves.conversations.some(self.owner, [*by_id, *origins])
        there = {each.id for each in found}
        return [each for key, each in by_id.items() if key not in there and each.origin not in there]

    async def _write(self, new: Sequence[Taken]) -> None:
        messages = [message for each in new for message in each.messages]
        await self._shelves.messages.bring(self.owner, messages)
        await self._shelves.conversations.bring(self.owner, {each.conversation: each.terms for each in new})

    async def _keep(self, at: Import) -> None:
        self.at = replace(at, until=self._shelves.clock() + LEASE_SECONDS)
        if not await self._patiently(partial(self._shelves.imports.keep, self.owner, self.at)):
            raise Superseded

    async def _patiently(self, action: Callable[[], Awaitable[T]]) -> T:
        until, tries = time.monotonic() + PATIENCE_SECONDS, 0
        while True:
            try:
                return await action()
            except StoreUnavailable as error:
                if time.monotonic() > until:
                    raise
                _log.info("an import is waiting for the store", reason=str(error))
            await asyncio.sleep(exponential_delay(tries))
            tries += 1
