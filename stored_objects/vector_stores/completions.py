"""Completes imported files, those of several imports that end at about the same time by one write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runtime.grouped_calls import GroupedCalls
from stored_objects.vector_stores.record_store import VectorStoreStore
from stored_objects.vector_stores.records import VectorStoreFile


class Completions:
    """Completes and numbers the files of one process; those that end within `delay` seconds together."""

    def __init__(self, records: VectorStoreStore, delay: float) -> None:
        self._records = records
        self._calls = GroupedCalls(self._complete, delay)

    async def complete(self, file: VectorStoreFile, warning: str) -> bool:
        """Complete the import of a file, and number the change; return false if `file.runner` does not hold it.

        Raises:
            StoreUnavailable: the outcome is unknown; repeat the call. After a cancellation it is unknown too.
        """
        return await self._calls.call((file, warning))

    async def _complete(self, group: Sequence[tuple[VectorStoreFile, str]]) -> list[bool]:
        completed: set[str] = set()
        for warning in dict.fromkeys(warning for _, warning in group):
            files = [file for file, own in group if own == warning]
            results = await self._records.complete(files, warning)
            completed |= {file.id for file, is_completed in zip(files, results, strict=True) if is_completed}
        changed = [replace(file, revision=file.revision + 1) for file, _ in group if file.id in completed]
        await self._records.number(changed)
        return [file.id in completed for file, _ in group]
