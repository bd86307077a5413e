"""Services that keep one kind of project documents each: identity, owner, expiry, pages and erasure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from stored_objects.errors import DocumentNotFound
from stored_objects.project_documents.batches import BatchStore
from stored_objects.project_documents.quota import DocumentQuota
from stored_objects.project_documents.records import (
    PAGE_BYTES,
    DocumentQuery,
    DocumentStore,
    ProjectDocument,
    ProjectOwner,
)
from stored_objects.project_documents.response_runs import ResponseRuns

DAY = 86_400.0
RENEWAL_INTERVAL = 3600.0
"""Seconds between two renewals of a document that gets items all the time: each is a write of all its items."""
TICK = 1e-6
"""Seconds between documents that are created together, so that their order is kept."""


@dataclass(frozen=True)
class Retention:
    """Number of days for which documents are kept, by project."""

    days: int
    by_project: Mapping[str, int] = field(default_factory=dict)
    """Days of the projects, by id, that differ from `days`."""

    def seconds(self, project: str) -> float:
        """Return the seconds for which a document of the project with this id is kept."""
        return self.by_project.get(project, self.days) * DAY


@dataclass(frozen=True)
class NewDocument:
    """A document to be stored; the fields are those of `ProjectDocument`."""

    id: str
    content: bytes
    metadata: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    parent: str = ""


@dataclass(frozen=True)
class DocumentPage:
    """One page of a list of documents."""

    documents: list[ProjectDocument]
    has_more: bool
    """Whether further documents follow."""


class ProjectDocuments:
    """Keeps the documents of one kind. Methods raise `StoreUnavailable` (of `auth_billing`) if the store is away.

    Every document counts in its project's quota: before it is written, until it is erased.
    """

    def __init__(
        self,
        store: DocumentStore,
        retention: Retention,
        quota: DocumentQuota,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.quota = quota
        self._retention = retention
        self._clock = clock

    async def add(self, owner: ProjectOwner, *new: NewDocument) -> list[ProjectDocument]:
        """Store documents of `owner`, at least one, in this order, and return them: one write for all of them.

        Raises:
            StorageQuotaExceeded: the project or its organisation would store too much; nothing is stored.
        """
        documents = self.created(owner, *new)
        await self.quota.reserve(owner, sum(each.size for each in documents))
        await self.store.insert(documents)  # after an error they stay counted: some may be stored
        return documents

    def created(self, owner: ProjectOwner, *new: NewDocument) -> list[ProjectDocument]:
        """Return documents of `owner` as they are if they are created now, in this order; nothing is stored."""
        now = self._clock()
        expires = now + self._retention.seconds(owner.project)
        return [
            ProjectDocument(
                each.id,
                owner.organisation,
                owner.project,
                created=now + number * TICK,
                expires=expires,
                content=each.content,
                metadata=dict(each.metadata),
                model=each.model,
                parent=each.parent,
            )
            for number, each in enumerate(new)
        ]

    async def find(self, owner: ProjectOwner, id: str) -> ProjectDocument:
        """Return one document of `owner`, by id.

        Raises:
            DocumentNotFound: the owner has none with this id; other owners' are not found either.
        """
        found = await self.store.find(owner, id, self._clock())
        if found is None:
            raise DocumentNotFound(id)
        return found

    async def find_many(self, owner: ProjectOwner, ids: Sequence[str]) -> list[ProjectDocument]:
        """Return those documents of `owner` that have one of these `ids`, in any order."""
        return await self.store.find_many(owner, ids, self._clock()) if ids else []

    async def page(self, owner: ProjectOwner, query: DocumentQuery, after: str | None = None) -> DocumentPage:
        """Return the page of the owner's documents that follows the one with the id `after` (`None`: the first page).

        It has fewer than `query.limit` where more would have more than `PAGE_BYTES`.

        Raises:
            DocumentNotFound: the owner has no document `after`.
        """
        last = None if after is None else await self.find(owner, after)
        if last is not None and last.parent != query.parent:
            raise DocumentNotFound(last.id)
        one_more = replace(query, limit=query.limit + 1, after=last)
        found = await self.store.page(owner, one_more, self._clock())
        shown = _fitting(found[: query.limit])
        return DocumentPage(shown, has_more=len(found) > len(shown))

    async def renew(self, document: ProjectDocument) -> None:
        """Keep a document, to which items were added, and all its items for the project's days from now.

        Raises:
            DocumentNotFound: it was deleted meanwhile; the added items are erased.
        """
        owner, id, now = document.owner, document.id, self._clock()
        expires = now + self._retention.seconds(document.project)
        if expires - document.expires >= RENEWAL_INTERVAL:
            await self.store.renew(owner, id, expires)
        if await self.store.find(owner, id, now) is None:
            await self.quota.release(owner, await self.store.delete_items(owner, id))
            raise DocumentNotFound(id)

    async def set_metadata(self, owner: ProjectOwner, id: str, metadata: Mapping[str, str]) -> ProjectDocument:
        """Replace the metadata of one document of `owner`, and return the document.

        Raises:
            DocumentNotFound: the owner has none with this id.
            StorageQuotaExceeded: the project or its organisation would store too much; nothing is changed.
        """
        while True:
            found = await self.find(owner, id)
            changed = replace(found, metadata=dict(metadata))
            reserved = max(changed.size - found.size, 0)
            await self.quota.reserve(owner, reserved)
            if await self.store.set_metadata(changed, found.size, self._clock()):
                await self.quota.release(owner, max(found.size - changed.size, 0))
                return changed
            await self.quota.release(owner, reserved)  # another call has changed or erased it meanwhile

    async def delete(self, owner: ProjectOwner, id: str) -> None:
        """Erase one document of `owner` and its items; the items first: a deletion that is cut off can be repeated.

        Raises:
            DocumentNotFound: the owner has none with this id.
        """
        await self.quota.release(owner, await self.store.delete_items(owner, id))
        size = await self.store.delete(owner, id)
        if size is None:
            raise DocumentNotFound(id)
        await self.quota.release(owner, size)

    async def delete_expired(self, limit: int) -> int:
        """Erase up to `limit` documents of all owners that have expired, and return their number."""
        erased = await self.store.delete_expired(self._clock(), limit)
        for each in erased:
            await self.quota.release(each.owner, each.size)
        return sum(each.number for each in erased)


def _fitting(documents: Sequence[ProjectDocument]) -> list[ProjectDocument]:
    """Return the first of `documents` that have at most `PAGE_BYTES` together, at least one if there are any."""
    sizes = accumulate(len(each.content) for each in documents)
    return [
        each
        for number, (each, size) in enumerate(zip(documents, sizes, strict=True))
        if not number or size <= PAGE_BYTES
    ]


@dataclass(frozen=True)
class StoredDocuments:
    """The services of all kinds of project documents of an installation."""

    completions: ProjectDocuments
    """Chat completions with `store`."""
    responses: ProjectDocuments
    """Responses of the Responses API."""
    conversations: ProjectDocuments
    """Conversations and their items."""
    response_runs: ResponseRuns
    """Runs of background responses, whose documents are among `responses`."""
    batches: BatchStore
    quota: DocumentQuota
    """The quota that counts the documents of all kinds."""

    @property
    def kinds(self) -> list[ProjectDocuments]:
        """The service of each kind, for a sweep."""
        return [self.completions, self.responses, self.conversations]
