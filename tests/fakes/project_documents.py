"""Project documents in dictionaries, which outlive a gateway that a test restarts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from auth_billing.errors import StoreUnavailable
from stored_objects.documents.project_documents import ProjectDocuments, Retention, StoredDocuments
from stored_objects.documents.records import DocumentQuery, ProjectDocument, ProjectOwner


class DictDocumentStore:
    """`documents.records.DocumentStore` in a dictionary."""

    def __init__(self) -> None:
        self.records: dict[str, ProjectDocument] = {}
        self.writes = 0
        """Number of inserting calls."""
        self.is_down = False
        """Whether the store takes no documents."""

    async def insert(self, documents: Sequence[ProjectDocument]) -> None:
        if self.is_down:
            raise StoreUnavailable("no answer")
        self.writes += 1
        for each in documents:
            self.records.setdefault(each.id, each)

    async def replace(self, document: ProjectDocument) -> bool:
        found = self.records.get(document.id)
        if found is None or found.owner != document.owner:
            return False
        self.records[document.id] = document
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
        return found[: query.limit]

    async def set_metadata(self, owner: ProjectOwner, id: str, metadata: Mapping[str, str], now: float) -> bool:
        found = await self.find(owner, id, now)
        if found is None:
            return False
        self.records[id] = replace(found, metadata=dict(metadata))
        return True

    async def renew(self, owner: ProjectOwner, id: str, expires: float) -> None:
        for each in list(self.records.values()):
            if id in (each.id, each.parent) and each.owner == owner:
                self.records[each.id] = replace(each, expires=expires)

    async def delete(self, owner: ProjectOwner, id: str) -> bool:
        items = [each.id for each in self.records.values() if each.parent == id and each.owner == owner]
        for each in items:
            del self.records[each]
        if id not in self.records or self.records[id].owner != owner:
            return False
        del self.records[id]
        return True

    async def delete_expired(self, now: float, limit: int) -> int:
        expired = [each.id for each in self.records.values() if each.expires <= now][:limit]
        for each in expired:
            del self.records[each]
        return len(expired)


def stored_documents(clock: Callable[[], float] = time.time, days: int = 30) -> StoredDocuments:
    """Project documents in memory."""
    kinds = [ProjectDocuments(DictDocumentStore(), Retention(days), clock=clock) for _ in range(3)]
    return StoredDocuments(*kinds)
