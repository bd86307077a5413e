"""Batches in a dictionary."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from stored_objects.project_documents.batches import Batch, BatchProgress, BatchState


class DictBatchStore:
    """`batches.BatchStore` in a dictionary."""

    def __init__(self) -> None:
        self.records: dict[str, Batch] = {}

    async def insert(self, batch: Batch) -> bool:
        if batch.id in self.records:
            return False
        self.records[batch.id] = batch
        return True

    async def find(self, organisation: str, project: str, id: str) -> Batch | None:
        found = self.records.get(id)
        return found if found is not None and (found.organisation, found.project) == (organisation, project) else None

    async def page(self, organisation: str, project: str, after: Batch | None, limit: int) -> list[Batch]:
        found = [each for each in self.records.values() if (each.organisation, each.project) == (organisation, project)]
        found.sort(key=_place, reverse=True)
        shown = [each for each in found if after is None or _place(each) < _place(after)][:limit]
        hidden: dict[str, Any] = {"done": [], "output": [], "errors": []}
        return [replace(each, progress=replace(each.progress, **hidden)) for each in shown]

    async def cancel(self, organisation: str, project: str, id: str, now: float) -> bool:
        found = await self.find(organisation, project, id)
        if found is None or found.state not in (BatchState.VALIDATING, BatchState.IN_PROGRESS):
            return False
        state = BatchState.CANCELLING
        self.records[id] = replace(found, state=state, times={**found.times, state.value: now})
        return True

    async def claim(self, runner: str, now: float, lease: float, passed_over: Collection[str] = ()) -> Batch | None:
        for found in sorted(self.records.values(), key=_place):
            if found.state.is_open and found.lease <= now and found.organisation not in passed_over:
                self.records[found.id] = replace(found, runner=runner, lease=lease)
                return self.records[found.id]
        return None

    async def renew(self, id: str, runner: str, lease: float) -> Batch | None:
        found = self.records.get(id)
        if found is None or found.runner != runner:
            return None
        self.records[id] = replace(found, lease=lease)
        return self.records[id]

    async def change(self, id: str, runner: str, state: BatchState, changes: Mapping[str, Any]) -> bool:
        found = self.records.get(id)
        if found is None or (found.runner, found.state) != (runner, state):
            return False
        plain = {name: value for name, value in changes.items() if "." not in name}
        times = {name.partition(".")[2]: value for name, value in changes.items() if "." in name}
        self.records[id] = replace(found, **plain, times={**found.times, **times})
        return True

    async def save(self, id: str, runner: str, progress: BatchProgress) -> bool:
        found = self.records.get(id)
        if found is None or found.runner != runner or not found.state.is_open:
            return False
        self.records[id] = replace(found, progress=progress)
        return True


def _place(batch: Batch) -> tuple[float, str]:
    return batch.created, batch.id
