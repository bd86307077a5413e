"""Routes of `/v1/vector_stores`: create, list, retrieve, update, delete and search vector stores of the project."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from gateway.http.api_documentation import document_route
from gateway.http.dependencies import CurrentGateway, FileCaller, body_of, file_guard
from gateway.http.document_audit import client_address, record_accesses, record_uploads
from gateway.http.job_submission import submit
from gateway.http.json_response import json_response
from gateway.http.pagination import listed, query_of
from gateway.http.vector_stores import (
    attached_files,
    page_query,
    shown_passage,
    shown_store,
    unknown_places,
)
from gateway.openai.vector_store_search import RankingOptions, SearchResult, SearchResultPage, VectorStoreSearch
from gateway.openai.vector_stores import (
    VectorStoreCreate,
    VectorStoreDeleted,
    VectorStoreFileCreate,
    VectorStoreList,
    VectorStoreObject,
    VectorStoreQuery,
    VectorStoreUpdate,
)
from gateway.vector_stores.access import check_embeds, find_store, find_store_to_change
from gateway.vector_stores.embedder import embedder_of
from gateway.vector_stores.search import Queries, search_stores
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.vector_stores.access import Reader
from stored_objects.vector_stores.audit_actions import store_deleted
from stored_objects.vector_stores.vector_stores import new_store_id

DEFAULT_RESULTS = 10
"""Passages of a search whose request sets no number."""

router = APIRouter(prefix="/v1/vector_stores")


@router.post("", **document_route(VectorStoreObject, body=VectorStoreCreate))
async def create_vector_store(
    request: Request,
    caller: FileCaller,
    gateway: CurrentGateway,
    body: Annotated[VectorStoreCreate, Depends(body_of(VectorStoreCreate, file_guard))],
) -> Response:
    """Create a vector store, and import files into it in the background (`POST /v1/vector_stores`)."""
    check_embeds(caller)
    embedder = embedder_of(gateway, caller)
    new = [
        VectorStoreFileCreate(file_id=each, chunking_strategy=body.chunking_strategy) for each in body.file_ids or ()
    ]
    files = await attached_files(gateway, caller, embedder, new, param="file_ids")
    id = new_store_id()
    await record_uploads(request, caller, id, caller.project, files)
    store = await gateway.vector_stores.create(
        ProjectOwner.of(caller),
        embedder=embedder.name,
        name=body.name or "",
        metadata=body.metadata or {},
        expiry_days=None if body.expires_after is None else body.expires_after.days,
        files=files,
        id=id,
    )
    gateway.files_attached.set()
    return json_response(await shown_store(gateway, store))


@router.get("", **document_route(VectorStoreList, query=VectorStoreQuery))
async def list_vector_stores(
    caller: FileCaller, gateway: CurrentGateway, query: Annotated[VectorStoreQuery, Depends(query_of(VectorStoreQuery))]
) -> Response:
    """List a page of the project's vector stores, newest first unless `order` says otherwise.

    Answers `GET /v1/vector_stores`.
    """
    with unknown_places(query):
        page = await gateway.vector_stores.page(
            Reader.of(caller), page_query(query), after=query.after, before=query.before
        )
    counts = await gateway.vector_stores.counts(page.items)
    shown = [await shown_store(gateway, each, counts) for each in page.items]
    return json_response(listed(VectorStoreList, shown, has_more=page.has_more))


@router.get("/{vector_store_id}", **document_route(VectorStoreObject))
async def retrieve_vector_store(vector_store_id: str, caller: FileCaller, gateway: CurrentGateway) -> Response:
    """Return one vector store of the project (`GET /v1/vector_stores/{vector_store_id}`)."""
    store = await gateway.vector_stores.find(Reader.of(caller), vector_store_id)
    return json_response(await shown_store(gateway, store))


@router.post("/{vector_store_id}", **document_route(VectorStoreObject, body=VectorStoreUpdate))
async def update_vector_store(
    vector_store_id: str,
    caller: FileCaller,
    gateway: CurrentGateway,
    body: Annotated[VectorStoreUpdate, Depends(body_of(VectorStoreUpdate, file_guard))],
) -> Response:
    """Change name, expiry or metadata of a vector store (`POST /v1/vector_stores/{vector_store_id}`)."""
    store = await find_store_to_change(gateway, caller, vector_store_id)
    given = body.model_fields_set
    expiry = body.expires_after
    changed = await gateway.vector_stores.update(
        store,
        name=store.name if body.name is None else body.name,
        metadata=(body.metadata or {}) if "metadata" in given else store.metadata,
        expiry_days=(None if expiry is None else expiry.days) if "expires_after" in given else store.expiry_days,
    )
    return json_response(await shown_store(gateway, changed))


@router.delete("/{vector_store_id}", **document_route(VectorStoreDeleted))
async def delete_vector_store(
    vector_store_id: str, request: Request, caller: FileCaller, gateway: CurrentGateway
) -> Response:
    """Delete a vector store with its passages; its files are kept (`DELETE /v1/vector_stores/{vector_store_id}`)."""
    store = await gateway.vector_stores.find_to_change(Reader.of(caller), vector_store_id)
    await record_accesses(request, caller, [store_deleted(store)])
    await gateway.vector_stores.delete(store)
    return json_response(VectorStoreDeleted(id=vector_store_id))


@router.post("/{vector_store_id}/search", **document_route(SearchResultPage, body=VectorStoreSearch))
async def search_vector_store(
    vector_store_id: str,
    request: Request,
    caller: FileCaller,
    gateway: CurrentGateway,
    body: Annotated[VectorStoreSearch, Depends(body_of(VectorStoreSearch, file_guard))],
) -> Response:
    """Return the passages that fit one or several queries best (`POST /v1/vector_stores/{vector_store_id}/search`)."""
    check_embeds(caller)
    store = await find_store(gateway, caller, vector_store_id)
    ranking = body.ranking_options or RankingOptions()
    limit = body.max_num_results or DEFAULT_RESULTS
    queries = Queries(body.queries, limit, body.filters, ranking, requires_relevance=bool(ranking.only_if_relevant))
    submitted = partial(submit, request, gateway, streamed=False)
    found, _ = await search_stores(gateway, caller, [store], queries, submitted, address=client_address(request))
    results = [
        SearchResult(
            file_id=each.file,
            filename=each.hit.file.name,
            score=each.hit.score,
            attributes=dict(each.hit.file.attributes),
            content=[shown_passage(each.hit.passage)],
            passage=each.hit.number,
        )
        for each in found
    ]
    return json_response(SearchResultPage(search_query=body.queries, data=results, has_more=False, next_page=None))
