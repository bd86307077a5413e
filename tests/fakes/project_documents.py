"""Project documents in dictionaries, which outlive a gateway that a test restarts."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import accumulate

from auth_billing.errors import StoreUnavailable
from router.messages import Receipt
from stored_objects.objects.records import ObjectOwner
from stored_objects.project_documents.project_documents import ProjectDocuments, Retention, StoredDocuments
from stored_objects.project_documents.records import (
    PAGE_BYTES,
    DocumentQuery,
    ErasedDocuments,
    ProjectDocument,
    ProjectOwner,
)
from stored_objects.project_documents.response_runs import LogGroup, ResponseRun
from tests.fakes.batches import DictBatchStore
from tests.fakes.byte_counts import MIB, document_quota


class DictDocumentStore:
    """`documents.records.DocumentStore` in a dictionary."""

    def __init__(self) -> None:
        self.records: dict[str, ProjectDocument] = {}
        self.sizes: dict[str, int] = {}
        """Bytes that are counted for each document."""
        self.writes = 0
        """Number of inserting calls."""
        self.is_down = False
        """Whether the store takes no documents."""

    async def insert(self, documents: Sequence[ProjectDocument]) -> None:
        if self.is_down:
            raise StoreUnavailable("no answer")
        self.writes += 1
        for each in documents:
            self.put(each, each.size)

    def put(self, document: ProjectDocument, size: int) -> bool:
        """Insert a document; return false if its id is taken."""
        if document.id in self.records:
            return False
        self.records[document.id], self.sizes[document.id] = document, size
        return True

    async def find(self, owner: ProjectOwner, id: str, now: float) -> ProjectDocument | None:
        found = self.records.get(id)
        return found if found is not None and found.owner == owner and found.expires > now else None

    async def find_many(self, owner: ProjectOwner, ids: Sequence[str], now: float) -> list[ProjectDocument]:
        return [each for id in ids if (each := await self.find(owner, id, now)) is not None]

    async def page(self, owner: ProjectOwner, query: DocumentQuery, now: float) -> list[ProjectDocument]:
        def place(each: ProjectDocument) -> tuple[float, str]:
            return each.created, each.id

        found = [
            each
            for each in sorted(self.records.values(), key=place)
            if each.owner == owner
            and each.expires > now
            and each.parent == query.parent
            and query.model in (None, each.model)
            and query.metadata.items() <= each.metadata.items()
        ]
        if query.order == "desc":
            found.reverse()
        if query.after is not None:
            last = place(query.after)
            found = [each for each in found if (place(each) > last if query.order == "asc" else place(each) < last)]
        sizes = accumulate(len(each.content) for each in found)
        whole = sum(size <= PAGE_BYTES for size in sizes)  # and the one after them, as stores end pages
        return found[: query.limit][: max(whole, 1) + 1]

    async def set_metadata(self, document: ProjectDocument, size: int, now: float) -> bool:
        found = await self.find(document.owner, document.id, now)
        if found is None or self.sizes[found.id] != size:
            return False
        self.records[found.id], self.sizes[found.id] = replace(found, metadata=document.metadata), document.size
        return True

    async def renew(self, owner: ProjectOwner, id: str, expires: float) -> None:
        for each in list(self.records.values()):
            if id in (each.id, each.parent) and each.owner == owner:
                self.records[each.id] = replace(each, expires=expires)

    async def delete(self, owner: ProjectOwner, id: str) -> int | None:
        if id not in self.records or self.records[id].owner != owner:
            return None
        return self._erase([id])

    async def delete_items(self, owner: ProjectOwner, parent: str) -> int:
        return self._erase([each.id for each in self.records.values() if each.parent == parent and each.owner == owner])

    async def delete_expired(self, now: float, limit: int) -> list[ErasedDocuments]:
        expired = [each for each in self.records.values() if each.expires <= now][:limit]
        return [ErasedDocuments(each.owner, 1, self._erase([each.id])) for each in expired]

    async def stored_bytes(self, organisation: str, requester: str | None) -> int:
        return sum(
            self.sizes[each.id]
            for each in self.records.values()
            if each.organisation == organisation
            and requester in (None, ObjectOwner.of_project(organisation, each.project).requester)
        )

    def _erase(self, ids: Sequence[str]) -> int:
        for each in ids:
            del self.records[each]
        return sum(self.sizes.pop(each) for each in ids)


class DictResponseRuns:
    """`documents.runs.ResponseRuns` in a dictionary."""

    def __init__(self, responses: DictDocumentStore) -> None:
        self.responses = responses
        self.runs: dict[str, ResponseRun] = {}
        self.receipts: dict[str, list[Receipt]] = {}

    async def begin(self, document: ProjectDocument, run: ResponseRun) -> bool:
        if document.id not in self.responses.records:
            await self.responses.insert([document])
        stored = self.runs.setdefault(document.id, run)
        return (stored.runner, stored.job) == (run.runner, run.job)

    async def append(self, groups: Sequence[LogGroup]) -> list[bool]:
        return [self._append(each) for each in groups]

    def _append(self, group: LogGroup) -> bool:
        id, who = f"{group.response}/{group.number:08d}", (group.owner.organisation, group.owner.project)
        document = ProjectDocument(id, *who, group.created, group.expires, group.content, parent=group.response)
        return self.responses.put(document, 0)

    async def log(self, owner: ProjectOwner, response: str, start: int) -> list[bytes]:
        found = sorted(id for id, each in self.responses.records.items() if each.parent == response)
        return [self.responses.records[id].content for id in found if int(id.partition("/")[2]) >= start]

    async def renew(self, runner: str, responses: Collection[str], lease: float) -> dict[str, bool]:
        held = [id for id in responses if self._holds(id, runner)]
        for id in held:
            self.runs[id] = replace(self.runs[id], lease=lease)
        return {id: self.runs[id].cancelled for id in held}

    async def cancel(self, owner: ProjectOwner, response: str) -> bool:
        if not await self.is_running(owner, response):
            return False
        self.runs[response] = replace(self.runs[response], cancelled=True)
        return True

    async def is_running(self, owner: ProjectOwner, response: str) -> bool | None:
        found = self.responses.records.get(response)
        if found is None or found.owner != owner or response not in self.runs:
            return None
        return self.runs[response].lease > 0

    async def abandoned(self, now: float, limit: int) -> list[str]:
        return [id for id, run in self.runs.items() if 0 < run.lease < now][:limit]

    async def claim(
        self, response: str, runner: str, lease: float, now: float
    ) -> tuple[ProjectDocument, ResponseRun] | None:
        run = self.runs[response]
        if not 0 < run.lease < now or response not in self.responses.records:
            return None
        self.runs[response] = replace(run, runner=runner, lease=lease, takeovers=run.takeovers + 1)
        return self.responses.records[response], self.runs[response]

    async def release(self, response: str, runner: str) -> None:
        if self._holds(response, runner):
            self.runs[response] = replace(self.runs[response], lease=1.0)

    async def finish(self, response: str, runner: str, content: bytes, size: int, receipts: Sequence[Receipt]) -> bool:
        if not self._holds(response, runner):
            return False
        self.runs[response] = replace(self.runs[response], lease=0.0, job=b"")
        self.receipts[response] = list(receipts)
        self.responses.records[response] = replace(self.responses.records[response], content=content)
        self.responses.sizes[response] = size
        return True

    def _holds(self, response: str, runner: str) -> bool:
        run = self.runs.get(response)
        return run is not None and run.runner == runner and run.lease > 0 and response in self.responses.records


def stored_documents(
    clock: Callable[[], float] = time.time, days: int = 30, per_project: int = 100 * MIB
) -> StoredDocuments:
    """Project documents in memory."""
    responses = DictDocumentStore()
    stores = (DictDocumentStore(), responses, DictDocumentStore())
    quota = document_quota(stores, per_project, clock=clock)
    first, second, third = (ProjectDocuments(each, Retention(days), quota, clock=clock) for each in stores)
    return StoredDocuments(first, second, third, DictResponseRuns(responses), DictBatchStore(), quota)
