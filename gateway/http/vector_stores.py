"""Helpers of the routes of vector stores: find files of the caller's project, and show stores and files."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from auth_billing.access.principal import Principal
from documents.content import Passage
from gateway.errors import InvalidRequest
from gateway.http.file_transfers import project_of
from gateway.http.gateway import Gateway
from gateway.openai.vector_stores import (
    ChunkingStrategy,
    FileBatchObject,
    FileStatus,
    LastError,
    PassageContent,
    StaticChunking,
    VectorStoreExpiration,
    VectorStoreFileCreate,
    VectorStoreFileObject,
    VectorStoreObject,
    VectorStoreQuery,
)
from gateway.openai.vector_stores import FileCounts as ShownCounts
from gateway.vector_stores.access import is_expired
from gateway.vector_stores.embedder import chunking_for
from router.model_registry import ModelInfo
from stored_objects.errors import BlobNotFound, DocumentNotFound
from stored_objects.vector_stores.records import (
    FileBatch,
    FileCounts,
    FileState,
    PageQuery,
    VectorStore,
    VectorStoreFile,
)
from stored_objects.vector_stores.vector_stores import NewFile

_STATUSES: Mapping[FileState, FileStatus] = {
    FileState.IN_PROGRESS: "in_progress",
    FileState.COMPLETED: "completed",
    FileState.FAILED: "failed",
    FileState.CANCELLED: "cancelled",
}
CONCURRENT_FINDS = 32
"""Files that are looked up at the same time."""


async def attached_files(
    gateway: Gateway,
    caller: Principal,
    embedder: ModelInfo,
    given: Sequence[VectorStoreFileCreate],
    *,
    param: str,
) -> list[NewFile]:
    """Return the files that a request attaches to a vector store, each once, in order.

    Raises:
        InvalidRequest: The project has no such file, or a chunk would be longer than the model reads.
    """
    distinct: dict[str, VectorStoreFileCreate] = {}
    for each in given:
        distinct.setdefault(each.file_id, each)
    places = asyncio.Semaphore(CONCURRENT_FINDS)
    owner = project_of(caller)

    async def attached(each: VectorStoreFileCreate) -> NewFile:
        async with places:
            try:
                found = await gateway.files.find(owner, each.file_id)
            except BlobNotFound as error:
                message = f"Invalid '{param}': there is no file '{each.file_id[:64]}' in this project."
                raise InvalidRequest(message, param=param) from error
        sizes = None if each.chunking_strategy is None else each.chunking_strategy.sizes
        return NewFile(
            each.file_id,
            found.name,
            chunking_for(embedder, sizes),
            each.attributes or {},
            key_id=caller.key_id,
            expires=found.expires,
        )

    return list(await asyncio.gather(*(attached(each) for each in distinct.values())))


def page_query(query: VectorStoreQuery) -> PageQuery:
    """Return the limit and the order of the page that a request asks for."""
    return PageQuery(query.limit, query.order)


@contextmanager
def unknown_places(query: VectorStoreQuery) -> Iterator[None]:
    """Answer 400 where the list has no item with the id `after` or `before` of `query`."""
    try:
        yield
    except DocumentNotFound as error:
        param = "after" if query.after is not None else "before"
        raise InvalidRequest(f"Invalid '{param}': there is no such item in this list.", param=param) from error


async def shown_store(
    gateway: Gateway, store: VectorStore, counts: Mapping[str, FileCounts] | None = None
) -> VectorStoreObject:
    """Return a vector store as the API shows it; `counts`: those of its files, by id, if they are known."""
    known = await gateway.vector_stores.counts([store]) if counts is None else counts
    counted = known.get(store.id, FileCounts())
    days = store.expiry_days
    return VectorStoreObject(
        id=store.id,
        created_at=int(store.created),
        name=store.name,
        usage_bytes=counted.size,
        file_counts=shown_counts(counted),
        status="expired" if is_expired(store) else "in_progress" if counted.in_progress else "completed",
        expires_after=None if days is None else VectorStoreExpiration(anchor="last_active_at", days=days),
        expires_at=int(store.expires) if math.isfinite(store.expires) else None,
        last_active_at=int(store.last_active),
        metadata=store.metadata,
        embedding_model=store.embedder,
    )


def shown_counts(counted: FileCounts) -> ShownCounts:
    """Return numbers of files as the API shows them."""
    return ShownCounts(
        in_progress=counted.in_progress,
        completed=counted.completed,
        failed=counted.failed,
        cancelled=counted.cancelled,
        total=counted.total,
    )


def shown_file(file: VectorStoreFile) -> VectorStoreFileObject:
    """Return a file of a vector store as the API shows it."""
    sizes = StaticChunking.model_construct(
        max_chunk_size_tokens=file.chunking.max_tokens, chunk_overlap_tokens=file.chunking.overlap_tokens
    )
    failure = file.failure
    return VectorStoreFileObject(
        id=file.file,
        usage_bytes=file.size,
        created_at=int(file.created),
        vector_store_id=file.vector_store,
        status=_STATUSES[file.state],
        last_error=None if failure is None else LastError.model_validate(asdict(failure)),
        warning=file.warning or None,
        chunking_strategy=ChunkingStrategy(type="static", static=sizes),
        attributes=file.attributes,
    )


def shown_passage(passage: Passage) -> PassageContent:
    """Return a passage of a file as the API shows it."""
    return PassageContent(
        text=passage.text,
        page=passage.page,
        heading_path=list(passage.heading_path),
        start=passage.start,
        end=passage.end,
    )


async def shown_batch(gateway: Gateway, batch: FileBatch) -> FileBatchObject:
    """Return a batch of files as the API shows it."""
    counted = await gateway.vector_stores.records.batch_counts(batch)
    return FileBatchObject(
        id=batch.id,
        created_at=int(batch.created),
        vector_store_id=batch.vector_store,
        status="cancelled" if batch.cancelled else "in_progress" if counted.in_progress else "completed",
        file_counts=shown_counts(counted),
    )
