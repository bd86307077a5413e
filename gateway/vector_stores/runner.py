"""Imports files of all projects' vector stores in one gateway, a few at a time; organisations take turns."""

from __future__ import annotations

from collections import Counter

from gateway.leased_work import LeasedWorkRunner
from gateway.vector_stores.file_import import FileImport, ImportContext
from stored_objects.vector_stores.records import VectorStoreFile

MAX_IMPORTS = 4
"""Files that one gateway imports at the same time."""
SHARE = MAX_IMPORTS // 2
"""Files of one organisation that a gateway imports at the same time while other organisations wait."""
MOST_OF_ONE = MAX_IMPORTS - 1
"""Files of one organisation that a gateway imports at the same time, so that another one need not wait for a place."""


class ImportRunner(LeasedWorkRunner[VectorStoreFile]):
    """Imports files of all projects' vector stores in one gateway."""

    def __init__(self, context: ImportContext) -> None:
        super().__init__(context.gateway.files_attached, MAX_IMPORTS)
        self._context = context
        self._served: set[str] = set()
        """Organisations that had a turn in this round."""

    async def _claim(self) -> VectorStoreFile | None:
        """Claim a file of an organisation whose turn it is, else of one within its share, else of any with a place."""
        places = Counter(each.organisation for each in self._running.values())
        above_share = {each for each, count in places.items() if count >= SHARE}
        full = {each for each, count in places.items() if count >= MOST_OF_ONE}
        imports, runner = self._context.gateway.imports, self._context.runner
        orders = (self._served | above_share, above_share, full)
        for passed_over in dict.fromkeys(map(frozenset, orders)):
            if (file := await imports.claim(runner, passed_over)) is not None:
                self._served.add(file.organisation)
                return file
            self._served = set()
        return None

    async def _perform(self, work: VectorStoreFile) -> None:
        await FileImport(self._context, work).run()
