"""Stores the conversations of one import, batch by batch, so that a crash leaves no partial conversation.

The ids of a batch are recorded first, then its messages are stored, then its conversations. After a crash, messages
whose conversation was not stored are deleted by the next import or by the clean-up scan.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import structlog

from auth_billing.errors import StoreUnavailable
from chat_ui.errors import StorageFull
from chat_ui.history.records import ConversationStore, MessageStore, Owner
from chat_ui.history.storage import MIB, StorageQuota, whole_bytes
from chat_ui.importing.frames import Batch, ConversationRecords
from chat_ui.importing.records import Import, ImportState, ImportStore, Skipped, SkipReason
from router.timings import DEFAULT_TIMINGS, Timings
from runtime.retry import Backoff

MAX_SKIPPED = 100
"""Skipped conversations that are recorded."""

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Superseded(Exception):
    """Raised when the owner's import lost its lease and a newer import of the owner has replaced it."""


@dataclass(frozen=True)
class ImportStores:
    """The stores that an import writes to, and the times of imports."""

    conversations: ConversationStore
    messages: MessageStore
    imports: ImportStore
    storage: StorageQuota
    timings: Timings = DEFAULT_TIMINGS

    @property
    def lease(self) -> float:
        """Unix time at which the lease of an import ends if it is taken or renewed now."""
        return time.time() + self.timings.import_lease


class ImportWriter:
    """Writes one import. `record` is the import's record with its progress."""

    def __init__(self, stores: ImportStores, owner: Owner, record: Import) -> None:
        self.owner = owner
        self.record = record
        self._stores = stores

    async def run(self, batches: AsyncIterator[Batch]) -> None:
        """Store the conversations of all batches with their messages, and the import's progress after each batch.

        Conversations that exist already are skipped.

        Raises:
            StoreUnavailable: the store did not answer for `import_store_timeout`.
            RecordRefused: the store refuses a record permanently.
            Superseded: another import has replaced this one.
        """
        await self.clear()
        async for batch in batches:
            await self._store_batch(batch)

    async def clear(self) -> None:
        """Delete messages that this import, or the owner's import before, stored without their conversation.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        if self.record.writing:
            found = await self._stores.conversations.find_many(self.owner, self.record.writing)
            orphaned = set(self.record.writing) - {each.id for each in found}
            await self._stores.messages.remove_all(self.owner, orphaned)
            self.record = replace(self.record, writing=[])

    async def end(self, state: ImportState) -> None:
        """Store the import's final state; if messages without a conversation remain, `Importer.run` will delete them.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        until = time.time() if self.record.writing else 0.0
        self.record = replace(self.record, state=state, until=until)
        await self._stores.imports.renew(self.owner, self.record)

    async def _store_batch(self, batch: Batch) -> None:
        unknown = await self._retry(partial(self._new, batch.taken))
        new = await self._retry(partial(self._reserve, unknown))
        kept = {each.conversation.id for each in new}
        refused = [self._refusal(each) for each in unknown if each.conversation.id not in kept]
        await self._renew(replace(self.record, writing=[each.conversation.id for each in new]))
        await self._retry(partial(self._write, new))
        record = self.record
        self.record = replace(
            record,
            done=record.done + len(batch.taken) + len(batch.skipped),
            imported=record.imported + len(new),
            known=record.known + len(batch.taken) - len(unknown),
            skipped=[*record.skipped, *batch.skipped, *refused][:MAX_SKIPPED],
            writing=[],
        )

    async def _new(self, taken: Sequence[ConversationRecords]) -> list[ConversationRecords]:
        """Return the conversations that the owner does not have, without duplicates."""
        by_id = {each.conversation.id: each for each in taken}
        origins = [each.origin for each in taken if each.origin is not None]
        found = await self._stores.conversations.find_many(self.owner, [*by_id, *origins])
        existing = {each.id for each in found}
        return [each for key, each in by_id.items() if key not in existing and each.origin not in existing]

    async def _reserve(self, unknown: Sequence[ConversationRecords]) -> list[ConversationRecords]:
        """Count the bytes of those conversations that fit into the owner's storage, and return them, with their size.

        Sizes from the parser are not trusted. After an error the call may be repeated, and counts twice until the
        count is corrected.
        """
        storage = self._stores.storage
        counted = [
            replace(each, conversation=replace(each.conversation, size=whole_bytes(each.conversation, each.messages)))
            for each in unknown
        ]
        try:
            await storage.reserve(self.owner, sum(each.conversation.size for each in counted))
        except StorageFull:
            counted = _fitting(counted, storage.limit - await storage.used(self.owner))
            try:
                await storage.reserve(self.owner, sum(each.conversation.size for each in counted))
            except StorageFull:  # other requests of the owner were faster
                return []
        return counted

    def _refusal(self, refused: ConversationRecords) -> Skipped:
        return Skipped(refused.conversation.title, SkipReason.STORAGE_FULL, self._stores.storage.limit // MIB)

    async def _write(self, new: Sequence[ConversationRecords]) -> None:
        messages = [message for each in new for message in each.messages]
        await self._stores.messages.add_missing(self.owner, messages)
        await self._stores.conversations.add_missing(self.owner, {each.conversation: each.terms for each in new})

    async def _renew(self, record: Import) -> None:
        self.record = replace(record, until=self._stores.lease)
        if not await self._retry(partial(self._stores.imports.renew, self.owner, self.record)):
            raise Superseded

    async def _retry(self, action: Callable[[], Awaitable[T]]) -> T:
        until, backoff = time.monotonic() + self._stores.timings.import_store_timeout, Backoff()
        while True:
            try:
                return await action()
            except StoreUnavailable as error:
                if time.monotonic() > until:
                    raise
                _log.info("an import is waiting for the store", reason=str(error))
            await backoff.sleep()


def _fitting(counted: Sequence[ConversationRecords], left: int) -> list[ConversationRecords]:
    """Return those conversations, in order, that fit into `left` bytes together."""
    fitting = []
    for each in counted:
        if each.conversation.size <= left:
            left -= each.conversation.size
            fitting.append(each)
    return fitting
