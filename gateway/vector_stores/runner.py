"""Claims files of vector stores for this gateway and imports them; a killed gateway's files go to others."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

import structlog

from auth_billing.errors import StoreUnavailable
from gateway.vector_stores.file_import import FileImport, ImportContext
from stored_objects.vector_stores.records import VectorStoreFile

MAX_IMPORTS = 4
"""Files that one gateway imports at the same time."""
SHARE = MAX_IMPORTS // 2
"""Files of one organisation that a gateway imports at the same time while other organisations wait."""
MOST_OF_ONE = MAX_IMPORTS - 1
"""Files of one organisation that a gateway imports at the same time, so that another one need not wait for a place."""
CLAIM_INTERVAL = 2.0
"""Seconds between two looks for files without a live lease."""

_log = structlog.get_logger(__name__)


class ImportRunner:
    """Imports files of all projects' vector stores in one gateway."""

    def __init__(self, context: ImportContext) -> None:
        self._context = context
        self._running: dict[asyncio.Task[None], str] = {}
        """Imports, each with its organisation."""
        self._served: set[str] = set()
        """Organisations that had a turn in this round."""

    async def run(self) -> None:
        """Claim and import files until cancelled; then give back those that are not complete."""
        woken = self._context.gateway.files_attached
        try:
            while True:
                woken.clear()
                with suppress(StoreUnavailable):
                    await self._claim_all()
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLAIM_INTERVAL):
                        await woken.wait()
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    async def _claim_all(self) -> None:
        while len(self._running) < MAX_IMPORTS:
            file = await self._claim()
            if file is None:
                return
            task = asyncio.create_task(self._import(file))
            self._running[task] = file.organisation
            task.add_done_callback(self._import_ended)

    async def _claim(self) -> VectorStoreFile | None:
        """Claim a file of an organisation whose turn it is, else of one within its share, else of any with a place."""
        places = Counter(self._running.values())
        above_share = {each for each, count in places.items() if count >= SHARE}
        full = {each for each, count in places.items() if count >= MOST_OF_ONE}
        imports, runner = self._context.gateway.imports, self._context.runner
        if self._served and (file := await imports.claim(runner, self._served | above_share)) is not None:
            self._served.add(file.organisation)
            return file
        file = await imports.claim(runner, above_share)
        if file is None and above_share != full:
            file = await imports.claim(runner, full)
        self._served = set() if file is None else {file.organisation}
        return file

    async def _import(self, file: VectorStoreFile) -> None:
        _log.info("importing a file", file=file.id, claims=file.claims)
        await FileImport(self._context, file).run()

    def _import_ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._context.gateway.files_attached.set()  # there may be more files to import
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("an import broke", exc_info=error)
