"""Imports files of all projects' vector stores in one gateway, a few at a time."""

from __future__ import annotations

from collections.abc import Collection

from gateway.leased_work import LeasedWorkRunner
from gateway.vector_stores.file_import import FileImport, ImportContext
from gateway.vector_stores.waiting_files import WaitingFiles
from stored_objects.vector_stores.records import VectorStoreFile

MAX_IMPORTS = 16
"""Files that one gateway imports at the same time, of which most wait for the store or the embedder; all but one of
them may be of one organisation."""
COMPLETION_DELAY = 0.2
"""Seconds that an import waits at its end for others, which are completed with it."""


class ImportRunner(LeasedWorkRunner[VectorStoreFile]):
    """Imports files of all projects' vector stores in one gateway."""

    def __init__(self, context: ImportContext) -> None:
        super().__init__(context.gateway.files_attached, MAX_IMPORTS)
        self._context = context
        self._waiting = WaitingFiles(context.gateway.imports, context.runner)

    async def _claim(self, passed_over: Collection[str]) -> VectorStoreFile | None:
        return await self._waiting.claim(frozenset(passed_over))

    def _look_again(self) -> None:
        self._waiting.forget()

    async def _perform(self, work: VectorStoreFile) -> None:
        await FileImport(self._context, work).run()
