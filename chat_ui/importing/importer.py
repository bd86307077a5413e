"""Runs imports in the background, one at a time per person, and cleans up after imports of processes that died."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from dataclasses import replace
from typing import BinaryIO

import structlog

from auth_billing.errors import RecordRefused, StoreUnavailable
from auth_billing.ids import new_id
from chat_ui.errors import Busy, ImportRunning, ImportTooCostly, ImportUnavailable, InvalidField
from chat_ui.history.quota import ConversationQuota
from chat_ui.history.records import Owner
from chat_ui.history.storage import SMALLEST_CONVERSATION
from chat_ui.importing.frames import (
    Batch,
    FileTooCostly,
    Frame,
    ImportRequest,
    Opened,
    ParseFile,
    ParserFailed,
    ParserUnavailable,
    Refused,
)
from chat_ui.importing.records import Import, ImportState
from chat_ui.importing.writer import ImportStores, ImportWriter, Superseded
from runtime.strict_json import MalformedRequest

MAX_CONCURRENT = 2
"""Imports that run in a process at a time."""
MAX_CLEANED = 16
"""Abandoned imports that are cleaned up in one scan, at most."""
_UNREADABLE = "We could not read this file."

ReceiveFile = Callable[[], AbstractAsyncContextManager[BinaryIO]]
"""Receives the file of an import into a temporary file."""

_log = structlog.get_logger(__name__)


class Importer:
    """Runs the imports of one gateway process; `run` must be running while the process serves."""

    def __init__(self, stores: ImportStores, quota: ConversationQuota, parse_file: ParseFile) -> None:
        self._stores = stores
        self._quota = quota
        self._parse_file = parse_file
        self._running: set[asyncio.Task[None]] = set()
        self._opening: set[Owner] = set()

    async def begin(self, owner: Owner, receive: ReceiveFile, model: str) -> Import:
        """Receive an export file, start importing it in the background, and return the import's record.

        `receive` reads the file, and is not called for an import that can't begin; `model` answers new questions in the
        imported conversations.

        Raises:
            MalformedRequest, InvalidField: the file is not JSON, or its format is unknown.
            ImportTooCostly: parsing the file takes more time or memory than an import may.
            ImportRunning: the owner's last import has not ended.
            ConversationFull, StorageFull: the owner's limit of conversations or of bytes is reached.
            Busy: `MAX_CONCURRENT` imports are running in this process, or being received.
            ImportUnavailable: files can't be parsed on this machine.
        """
        if owner in self._opening:
            raise ImportRunning
        if len(self._running) + len(self._opening) >= MAX_CONCURRENT:
            raise Busy
        self._opening.add(owner)
        try:
            await self._check(owner)
            async with receive() as file:
                frames = self._parse_file(file, ImportRequest(owner, model, time.time()))
                try:
                    writer = await self._start(owner, frames)
                except BaseException:
                    await _close(frames)
                    raise
        finally:
            self._opening.discard(owner)
        task = asyncio.create_task(self._run_import(writer, frames))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return writer.record

    async def last(self, owner: Owner) -> Import | None:
        """Return progress or result of the owner's last import; `None` if there is none.

        A running import whose lease has expired counts as failed.
        """
        found = await self._stores.imports.find(owner)
        if found is not None and found.state is ImportState.RUNNING and found.until < time.time():
            return replace(found, state=ImportState.FAILED)
        return found

    async def run(self) -> None:
        """Clean up after imports of processes that died, until cancelled: a background task of the gateway.

        Their messages without a conversation are deleted, and they are marked as failed. `begin` starts the imports
        themselves.
        """
        while True:
            try:
                for owner, abandoned in await self._stores.imports.abandoned(time.time(), MAX_CLEANED):
                    await self._clean_up(owner, abandoned)
            except StoreUnavailable as error:
                _log.warning("can't search for abandoned imports", reason=str(error))
            await asyncio.sleep(self._stores.timings.import_scan_interval)

    async def close(self) -> None:
        """Cancel the imports that this process runs, at shutdown.

        Stored conversations are complete; repeating the import skips them.
        """
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _check(self, owner: Owner) -> None:
        last = await self.last(owner)
        if last is not None and last.state is ImportState.RUNNING:
            raise ImportRunning
        await self._stores.storage.check(owner, SMALLEST_CONVERSATION)

    async def _start(self, owner: Owner, frames: AsyncIterator[Frame]) -> ImportWriter:
        match await _first(frames):
            case Opened(total=total):
                await self._quota.reserve(owner, total)
            case Refused(message=message, is_json=True):
                raise InvalidField(None, message)
            case Refused(message=message):
                raise MalformedRequest(message)
            case _:
                raise MalformedRequest(_UNREADABLE)
        now = time.time()
        previous = await self._stores.imports.find(owner)
        unfinished = () if previous is None else previous.writing
        record = Import(new_id("import-"), now, total, writing=unfinished, until=self._stores.lease)
        if not await self._stores.imports.begin(owner, record, previous, now):
            raise ImportRunning
        return ImportWriter(self._stores, owner, record)

    async def _run_import(self, writer: ImportWriter, frames: AsyncIterator[Frame]) -> None:
        state = ImportState.FAILED
        try:
            await writer.run(_batches(frames))
            state = ImportState.DONE
        except (StoreUnavailable, RecordRefused, ParserFailed) as error:
            _log.warning("an import failed", reason=f"{type(error).__name__}: {error}")
        except Superseded:
            return
        finally:
            await _close(frames)
            with suppress(StoreUnavailable):
                await writer.end(state)
        _log.info("an import ended", state=state.value, imported=writer.record.imported, known=writer.record.known)

    async def _clean_up(self, owner: Owner, abandoned: Import) -> None:
        now = time.time()
        leased = replace(abandoned, until=self._stores.lease)
        if await self._stores.imports.begin(owner, leased, abandoned, now):
            _log.info("cleaning up after an abandoned import", done=abandoned.done, total=abandoned.total)
            writer = ImportWriter(self._stores, owner, leased)
            await writer.clear()
            await writer.end(ImportState.FAILED)


async def _first(frames: AsyncIterator[Frame]) -> Frame | None:
    """Return the first frame; raises as `Importer.begin` documents."""
    try:
        return await anext(frames, None)
    except FileTooCostly as error:
        raise ImportTooCostly(f"Reading this file takes too much {error}. Please split the file.") from error
    except ParserUnavailable as error:
        _log.error("import files can't be parsed in a sandbox", reason=str(error))
        raise ImportUnavailable from error
    except ParserFailed as error:
        _log.warning("the parser of an import file failed", reason=str(error))
        raise MalformedRequest(_UNREADABLE) from error


async def _batches(frames: AsyncIterator[Frame]) -> AsyncIterator[Batch]:
    async for frame in frames:
        if isinstance(frame, Batch):
            yield frame


async def _close(frames: AsyncIterator[Frame]) -> None:
    async with aclosing(frames):  # type: ignore[type-var]
        return
