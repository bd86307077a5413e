"""Takes in one file: batch by batch into the store, so that whatever breaks it off leaves no half of a conversation.

Messages go in before the conversations that they are found by; of which conversations that is so is said before it
is done, and whoever comes next deletes what has no conversation. Knows neither files nor who reads them.
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
"""After which an import of which nothing is heard counts as broken off."""
PATIENCE_SECONDS = 30.0
"""With a store that does not answer."""
MOST_SKIPPED = 100
"""That are told of."""

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Superseded(Exception):
    """Another import is in its place: this one was silent for too long."""


@dataclass(frozen=True)
class Shelves:
    """Where what is taken in goes to."""

    conversations: ConversationStore
    messages: MessageStore
    imports: ImportStore
    clock: Callable[[], float] = time.time


class TakingIn:
    """One import, from its beginning to its end. `at` is how far it is."""

    def __init__(self, shelves: Shelves, owner: Owner, at: Import) -> None:
        self.owner = owner
        self.at = at
        self._shelves = shelves

    async def run(self, batches: AsyncIterator[Batch]) -> None:
        """Take all of them.

        Raises:
            StoreUnavailable: for longer than there is patience.
            RecordRefused: the store will never take one of them.
            Superseded
        """
        await self.clear()
        async for batch in batches:
            await self._take(batch)

    async def clear(self) -> None:
        """Delete what was written in halves, now or by the import before.

        Raises:
            StoreUnavailable
        """
        if self.at.writing:
            found = await self._shelves.conversations.some(self.owner, self.at.writing)
            halves = set(self.at.writing) - {each.id for each in found}
            await self._shelves.messages.discard(self.owner, halves)
            self.at = replace(self.at, writing=[])

    async def end(self, state: ImportState) -> None:
        """Say that nothing more happens; what could not be cleared is left to whoever comes by.

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
        """Those that the owner does not have, each once."""
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
                _log.info("an import waits for the store", reason=str(error))
            await asyncio.sleep(exponential_delay(tries))
            tries += 1
