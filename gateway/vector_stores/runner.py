"""Imports files of all projects' vector stores in one gateway, a few at a time."""

from __future__ import annotations

from collections.abc import Collection

from gateway.leased_work import LeasedWorkRunner
from gateway.vector_stores.file_import import FileImport, ImportContext
from stored_objects.vector_stores.records import VectorStoreFile

MAX_IMPORTS = 4
"""Files that one gateway imports at the same time; all but one of them may be of one organisation."""


class ImportRunner(LeasedWorkRunner[VectorStoreFile]):
    """Imports files of all projects' vector stores in one gateway."""

    def __init__(self, context: ImportContext) -> None:
        super().__init__(context.gateway.files_attached, MAX_IMPORTS)
        self._context = context

    async def _claim(self, passed_over: Collection[str]) -> VectorStoreFile | None:
        return await self._context.gateway.imports.claim(self._context.runner, passed_over)

    async def _perform(self, work: VectorStoreFile) -> None:
        await FileImport(self._context, work).run()
