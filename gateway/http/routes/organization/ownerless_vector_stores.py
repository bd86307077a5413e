"""Routes of `/v1/organization/ownerless_vector_stores`: list and delete those of people who have left."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from auth_billing.audit_log import Event
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import CurrentGateway
from gateway.http.json_response import json_response
from gateway.http.pagination import listed, query_of, unknown_after
from gateway.http.routes.organization.access import Reader, Writer
from gateway.openai.organization.ownerless_vector_stores import OwnerlessVectorStore, OwnerlessVectorStoreList
from gateway.openai.pagination import PageQuery
from gateway.openai.vector_stores import VectorStoreDeleted
from stored_objects.errors import DocumentNotFound
from stored_objects.vector_stores.audit_actions import store_deleted

router = APIRouter(prefix="/v1/organization/ownerless_vector_stores")


@router.get("", **document_route(OwnerlessVectorStoreList, query=PageQuery))
async def list_ownerless_vector_stores(
    admin: Reader, gateway: CurrentGateway, query: Annotated[PageQuery, Depends(query_of(PageQuery))]
) -> Response:
    """List a page of the vector stores of people who have left the organisation, the newest first (an extension).

    Answers `GET /v1/organization/ownerless_vector_stores`.
    """
    try:
        page = await gateway.ownerless_vector_stores.page(admin.organisation, query.limit, query.after)
    except DocumentNotFound as error:
        raise unknown_after() from error
    counts = await gateway.vector_stores.counts(page.items)
    shown = [
        OwnerlessVectorStore(
            id=each.id,
            created_at=int(each.created),
            name=each.name,
            project_id=each.project,
            user_id=each.person,
            files=counts[each.id].total,
            usage_bytes=counts[each.id].size,
        )
        for each in page.items
    ]
    return json_response(listed(OwnerlessVectorStoreList, shown, has_more=page.has_more))


@router.delete("/{vector_store_id}", **document_route(VectorStoreDeleted))
async def delete_ownerless_vector_store(vector_store_id: str, admin: Writer, gateway: CurrentGateway) -> Response:
    """Delete a vector store of a person who has left, with the files that the person has uploaded to it.

    Answers `DELETE /v1/organization/ownerless_vector_stores/{vector_store_id}` (an extension).
    """
    deleted = await gateway.ownerless_vector_stores.delete(admin.organisation, vector_store_id)
    action = store_deleted(deleted)
    await admin.record(Event.VECTOR_STORE_DELETED, deleted.id, project=deleted.project, details=action.details)
    return json_response(VectorStoreDeleted(id=vector_store_id))
