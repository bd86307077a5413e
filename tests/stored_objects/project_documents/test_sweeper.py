"""The sweeper of project documents erases what has expired, and survives a store that is away."""

from __future__ import annotations

import asyncio

import pytest

from auth_billing.errors import StoreUnavailable
from stored_objects.project_documents import sweeper as module
from stored_objects.project_documents.project_documents import DAY, NewDocument, ProjectDocuments, Retention
from stored_objects.project_documents.records import ErasedDocuments, ProjectOwner
from stored_objects.project_documents.sweeper import DocumentSweeper
from tests.fakes.byte_counts import document_quota
from tests.fakes.project_documents import DictDocumentStore
from tests.stored_objects.conftest import Clock

OWNER = ProjectOwner("org-1", "proj-1")


class LeavingStore(DictDocumentStore):
    """A store that does not answer the first sweep."""

    def __init__(self) -> None:
        super().__init__()
        self.sweeps = 0

    async def delete_expired(self, now: float, limit: int) -> list[ErasedDocuments]:
        self.sweeps += 1
        if self.sweeps == 1:
            raise StoreUnavailable("away")
        return await super().delete_expired(now, limit)


async def test_all_kinds_are_swept_batch_by_batch(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    kinds = [ProjectDocuments(DictDocumentStore(), Retention(1), document_quota(), clock=clock) for _ in range(2)]
    for kind in kinds:
        await kind.add(OWNER, *(NewDocument(str(number), b"{}") for number in range(5)))
    sweeper = DocumentSweeper(kinds)
    assert await sweeper.sweep() == 0
    clock.now += DAY
    await kinds[0].add(OWNER, NewDocument("new", b"{}"))
    assert await sweeper.sweep() == 10
    assert (await kinds[0].find(OWNER, "new")).id == "new"


async def test_a_failed_sweep_is_repeated(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL", 0.0)
    store = LeavingStore()
    documents = ProjectDocuments(store, Retention(1), document_quota(), clock=clock)
    await documents.add(OWNER, NewDocument("a", b"{}"))
    clock.now += DAY
    sweeping = asyncio.create_task(DocumentSweeper([documents]).run())
    async with asyncio.timeout(10):
        while store.records:
            await asyncio.sleep(0)
    sweeping.cancel()
    assert store.sweeps >= 2
