"""Runs imports in the background, one at a time per person, and cleans up after imports of processes that died."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import replace

import structlog

from auth_billing.errors import RecordRefused, StoreUnavailable
from auth_billing.ids import new_id
from chat_ui.errors import Busy, ImportRunning, InvalidField
from chat_ui.history.records import Owner
from chat_ui.history.room import Room
from chat_ui.importing.frames import Batch, Frame, Opened, Order, Read, ReaderDied, Refused
from chat_ui.importing.records import Import, ImportState
from chat_ui.importing.taking_in import LEASE_SECONDS, Shelves, Superseded, TakingIn
from runtime.strict_json import MalformedRequest

AT_ONCE = 2
"""Imports that run in a process at a time."""
SCAN_SECONDS = 20.0
MOST_CLEARED = 16
"""Abandoned imports that are cleaned up in one scan, at most."""

_log = structlog.get_logger(__name__)


class Importer:
    """The imports of one gateway process; `run` must be running while the process serves."""

    def __init__(self, shelves: Shelves, room: Room, read: Read) -> None:
        self._shelves = shelves
        self._room = room
        self._read = read
        self._running: set[asyncio.Task[None]] = set()
        self._opening = 0

    async def begin(self, owner: Owner, raw: bytes, model: str) -> Import:
        """Start importing a file; `model` answers new questions in its conversations.

        Raises:
            MalformedRequest, InvalidField: the file is not JSON, or its format is unknown.
            ImportRunning: the owner's last import has not ended.
            ConversationFull: the owner's quota would be exceeded.
            Busy: `AT_ONCE` imports are running in this process.
        """
        if len(self._running) + self._opening >= AT_ONCE:
            raise Busy
        self._opening += 1
        frames = self._read(raw, Order(owner, model, self._shelves.clock()))
        try:
            taking = await self._opened(owner, frames)
        except BaseException:
            await _close(frames)
            raise
        finally:
            self._opening -= 1
        task = asyncio.create_task(self._take_in(taking, frames))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return taking.at

    async def last(self, owner: Owner) -> Import | None:
        """Return the owner's last import; one whose lease has expired counts as failed."""
        found = await self._shelves.imports.find(owner)
        if found is not None and found.state is ImportState.RUNNING and found.until < self._shelves.clock():
            return replace(found, state=ImportState.FAILED)
        return found

    async def run(self) -> None:
        """Clean up after imports whose process died, until cancelled."""
        while True:
            try:
                for owner, left in await self._shelves.imports.abandoned(self._shelves.clock(), MOST_CLEARED):
                    await self._clear(owner, left)
            except StoreUnavailable as error:
                _log.warning("can't search for abandoned imports", reason=str(error))
            await asyncio.sleep(SCAN_SECONDS)

    async def close(self) -> None:
        """Cancel running imports. Conversations that were stored are complete, and are not imported again."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _opened(self, owner: Owner, frames: AsyncIterator[Frame]) -> TakingIn:
        match await anext(frames, None):
            case Opened(total=total):
                await self._room.take(owner, total)
            case Refused(message=message, is_json=True):
                raise InvalidField(None, message)
            case Refused(message=message):
                raise MalformedRequest(message)
            case _:
                raise MalformedRequest("We could not read this file.")
        now = self._shelves.clock()
        before = await self._shelves.imports.find(owner)
        left = () if before is None else before.writing
        at = Import(new_id("import-"), now, total, writing=left, until=now + LEASE_SECONDS)
        if not await self._shelves.imports.begin(owner, at, before, now):
            raise ImportRunning
        return TakingIn(self._shelves, owner, at)

    async def _take_in(self, taking: TakingIn, frames: AsyncIterator[Frame]) -> None:
        state = ImportState.FAILED
        try:
            await taking.run(_batches(frames))
            state = ImportState.DONE
        except (StoreUnavailable, RecordRefused, ReaderDied) as error:
            _log.warning("an import failed", reason=f"{type(error).__name__}: {error}")
        except Superseded:
            return
        finally:
            await _close(frames)
            with suppress(StoreUnavailable):
                await taking.end(state)
        _log.info("an import ended", state=state.value, imported=taking.at.imported, known=taking.at.known)

    async def _clear(self, owner: Owner, left: Import) -> None:
        now = self._shelves.clock()
        mine = replace(left, until=now + LEASE_SECONDS)
        if await self._shelves.imports.begin(owner, mine, left, now):
            _log.info("cleaned up after an abandoned import", done=left.done, total=left.total)
            taking = TakingIn(self._shelves, owner, mine)
            await taking.clear()
            await taking.end(ImportState.FAILED)


async def _batches(frames: AsyncIterator[Frame]) -> AsyncIterator[Batch]:
    async for frame in frames:
        if isinstance(frame, Batch):
            yield frame


async def _close(frames: AsyncIterator[Frame]) -> None:
    async with aclosing(frames):  # type: ignore[type-var]
        return
