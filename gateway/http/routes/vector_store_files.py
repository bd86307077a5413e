"""Routes of the files of a vector store and of batches of files: attach, list, retrieve, change, remove and cancel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from auth_billing.access.principal import Principal
from documents.content import Passage
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import CurrentGateway, FileCaller, body_of, file_guard
from gateway.http.document_audit import record_accesses, record_uploads
from gateway.http.gateway import Gateway
from gateway.http.json_response import json_response
from gateway.http.pagination import listed, query_of
from gateway.http.vector_stores import (
    attached_files,
    page_query,
    shown_batch,
    shown_file,
    shown_passage,
    unknown_places,
)
from gateway.openai.vector_stores import (
    FileBatchCreate,
    FileBatchObject,
    FileContentPage,
    VectorStoreFileCreate,
    VectorStoreFileDeleted,
    VectorStoreFileList,
    VectorStoreFileObject,
    VectorStoreFileQuery,
    VectorStoreFileUpdate,
)
from gateway.vector_stores.access import check_embeds, find_store_to_change
from gateway.vector_stores.embedder import served_embedder
from stored_objects.vector_stores.access import Reader
from stored_objects.vector_stores.audit_actions import file_deleted, read
from stored_objects.vector_stores.records import FileState, VectorStore, VectorStoreFile

READ_BLOCKS = 32
"""Blocks of passages that are read from the store at once."""
_EMPTY_PAGE = FileContentPage(data=[], has_more=False, next_page=None).model_dump_json()

router = APIRouter(prefix="/v1/vector_stores/{vector_store_id}")


@router.post("/files", **document_route(VectorStoreFileObject, body=VectorStoreFileCreate))
async def attach_file(
    vector_store_id: str,
    request: Request,
    caller: FileCaller,
    gateway: CurrentGateway,
    body: Annotated[VectorStoreFileCreate, Depends(body_of(VectorStoreFileCreate, file_guard))],
) -> Response:
    """Attach a file of the project to a vector store; it is imported in the background.

    Answers `POST /v1/vector_stores/{vector_store_id}/files`.
    """
    store = await _attachable(gateway, caller, vector_store_id)
    embedder = served_embedder(gateway, caller, store.embedder)
    files = await attached_files(gateway, caller, embedder, [body], param="file_id")
    await record_uploads(request, caller, store.id, store.project, files)
    await gateway.vector_stores.add(store, files)
    gateway.files_attached.set()
    return json_response(shown_file(await gateway.vector_stores.find_file(store, body.file_id)))


@router.get("/files", **document_route(VectorStoreFileList, query=VectorStoreFileQuery))
async def list_attached_files(
    vector_store_id: str,
    caller: FileCaller,
    gateway: CurrentGateway,
    query: Annotated[VectorStoreFileQuery, Depends(query_of(VectorStoreFileQuery))],
) -> Response:
    """List a page of a vector store's files, the last attached first unless `order` says otherwise.

    Answers `GET /v1/vector_stores/{vector_store_id}/files`.
    """
    store = await gateway.vector_stores.find(Reader.of(caller), vector_store_id)
    return json_response(await _page(gateway, store, query))


@router.get("/files/{file_id}", **document_route(VectorStoreFileObject))
async def retrieve_attached_file(
    vector_store_id: str, file_id: str, caller: FileCaller, gateway: CurrentGateway
) -> Response:
    """Return one file of a vector store (`GET /v1/vector_stores/{vector_store_id}/files/{file_id}`)."""
    store = await gateway.vector_stores.find(Reader.of(caller), vector_store_id)
    return json_response(shown_file(await gateway.vector_stores.find_file(store, file_id)))


@router.post("/files/{file_id}", **document_route(VectorStoreFileObject, body=VectorStoreFileUpdate))
async def update_attached_file(
    vector_store_id: str,
    file_id: str,
    caller: FileCaller,
    gateway: CurrentGateway,
    body: Annotated[VectorStoreFileUpdate, Depends(body_of(VectorStoreFileUpdate, file_guard))],
) -> Response:
    """Replace the attributes of a vector store's file (`POST /v1/vector_stores/{vector_store_id}/files/{file_id}`)."""
    store = await find_store_to_change(gateway, caller, vector_store_id)
    return json_response(shown_file(await gateway.vector_stores.set_attributes(store, file_id, body.attributes or {})))


@router.delete("/files/{file_id}", **document_route(VectorStoreFileDeleted))
async def remove_attached_file(
    vector_store_id: str, file_id: str, request: Request, caller: FileCaller, gateway: CurrentGateway
) -> Response:
    """Remove a file and its passages from a vector store; the file itself is kept.

    Answers `DELETE /v1/vector_stores/{vector_store_id}/files/{file_id}`.
    """
    store = await gateway.vector_stores.find_to_change(Reader.of(caller), vector_store_id)
    file = await gateway.vector_stores.find_file(store, file_id)
    await record_accesses(request, caller, [file_deleted(file)])
    await gateway.vector_stores.erase(file)
    return json_response(VectorStoreFileDeleted(id=file_id))


@router.get("/files/{file_id}/content", **document_route(FileContentPage))
async def read_attached_file(
    vector_store_id: str, file_id: str, request: Request, caller: FileCaller, gateway: CurrentGateway
) -> Response:
    """Return the text of an imported file, passage by passage.

    Answers `GET /v1/vector_stores/{vector_store_id}/files/{file_id}/content`.
    """
    store = await gateway.vector_stores.find(Reader.of(caller), vector_store_id)
    file = await gateway.vector_stores.find_file(store, file_id)
    parts, count = [], 0
    async for passages in _passages(gateway, file):
        parts.append(await asyncio.to_thread(_encoded, passages))
        count += len(passages)
    await record_accesses(request, caller, [read(file, count)])
    beginning, end = _EMPTY_PAGE.split("[]")
    body = b"".join((f"{beginning}[".encode(), b",".join(parts), f"]{end}".encode()))
    return Response(body, media_type="application/json")


@router.post("/file_batches", **document_route(FileBatchObject, body=FileBatchCreate))
async def create_file_batch(
    vector_store_id: str,
    request: Request,
    caller: FileCaller,
    gateway: CurrentGateway,
    body: Annotated[FileBatchCreate, Depends(body_of(FileBatchCreate, file_guard))],
) -> Response:
    """Attach up to 2,000 files to a vector store (`POST /v1/vector_stores/{vector_store_id}/file_batches`)."""
    store = await _attachable(gateway, caller, vector_store_id)
    embedder = served_embedder(gateway, caller, store.embedder)
    param = "file_ids" if body.files is None else "files"
    files = await attached_files(gateway, caller, embedder, body.all_files, param=param)
    await record_uploads(request, caller, store.id, store.project, files)
    batch = await gateway.vector_stores.add_batch(store, files)
    gateway.files_attached.set()
    return json_response(await shown_batch(gateway, batch))


@router.get("/file_batches/{batch_id}", **document_route(FileBatchObject))
async def retrieve_file_batch(
    vector_store_id: str, batch_id: str, caller: FileCaller, gateway: CurrentGateway
) -> Response:
    """Return a batch of files with the counts of its imports.

    Answers `GET /v1/vector_stores/{vector_store_id}/file_batches/{batch_id}`.
    """
    store = await gateway.vector_stores.find(Reader.of(caller), vector_store_id)
    return json_response(await shown_batch(gateway, await gateway.vector_stores.find_batch(store, batch_id)))


@router.post("/file_batches/{batch_id}/cancel", **document_route(FileBatchObject))
async def cancel_file_batch(
    vector_store_id: str, batch_id: str, caller: FileCaller, gateway: CurrentGateway
) -> Response:
    """Cancel the imports of a batch that have not ended.

    Answers `POST /v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel`.
    """
    store = await gateway.vector_stores.find_to_change(Reader.of(caller), vector_store_id)
    batch = await gateway.vector_stores.find_batch(store, batch_id)
    return json_response(await shown_batch(gateway, await gateway.vector_stores.cancel_batch(batch)))


@router.get("/file_batches/{batch_id}/files", **document_route(VectorStoreFileList, query=VectorStoreFileQuery))
async def list_files_of_batch(
    vector_store_id: str,
    batch_id: str,
    caller: FileCaller,
    gateway: CurrentGateway,
    query: Annotated[VectorStoreFileQuery, Depends(query_of(VectorStoreFileQuery))],
) -> Response:
    """List a page of the files of a batch.

    Answers `GET /v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/files`.
    """
    store = await gateway.vector_stores.find(Reader.of(caller), vector_store_id)
    batch = await gateway.vector_stores.find_batch(store, batch_id)
    return json_response(await _page(gateway, store, query, batch.id))


async def _passages(gateway: Gateway, file: VectorStoreFile) -> AsyncIterator[list[Passage]]:
    """Yield the passages of a file in order, those of several blocks at once; none before its import is complete."""
    start = 0
    while file.state is FileState.COMPLETED:
        blocks = await gateway.vector_stores.passages.read(file.organisation, file.passages, start, READ_BLOCKS)
        if blocks:
            yield [passage for block in blocks for passage in block.passages]
        if len(blocks) < READ_BLOCKS:
            return
        start += READ_BLOCKS


def _encoded(passages: Sequence[Passage]) -> bytes:
    """Return passages as the items of a JSON array, without its brackets."""
    return ",".join(shown_passage(each).model_dump_json() for each in passages).encode()


async def _attachable(gateway: Gateway, caller: Principal, id: str) -> VectorStore:
    check_embeds(caller)
    return await find_store_to_change(gateway, caller, id)


async def _page(
    gateway: Gateway, store: VectorStore, query: VectorStoreFileQuery, batch: str | None = None
) -> VectorStoreFileList:
    with unknown_places(query):
        page = await gateway.vector_stores.page_files(
            store,
            page_query(query),
            after=query.after,
            before=query.before,
            state=None if query.filter is None else FileState(query.filter),
            batch=batch,
        )
    return listed(VectorStoreFileList, [shown_file(each) for each in page.items], has_more=page.has_more)
