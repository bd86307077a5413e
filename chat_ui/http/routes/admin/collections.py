"""HTTP routes of collections of documents of people who have left: `/api/admin/collections`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from auth_billing.audit_log import Event
from chat_ui.errors import InvalidField
from chat_ui.http.access_control import Admin
from chat_ui.http.collection_access import not_found
from chat_ui.http.request_bodies import EmptyJson
from chat_ui.http.responses import no_content, schema_response
from chat_ui.http.schemas.base import QueryParameters
from chat_ui.http.schemas.collections import OwnerlessCollection, OwnerlessCollections
from chat_ui.services import record_event, services_of
from stored_objects.errors import DocumentNotFound
from stored_objects.vector_stores.audit_actions import store_deleted

router = APIRouter(prefix="/collections")

COLLECTIONS_SHOWN = 100
"""Collections of a page of the list."""


class OwnerlessPage(QueryParameters):
    """Query parameters of a page of collections of people who have left."""

    after: Annotated[str, Field(max_length=100)] | None = None
    """Id of the collection that the page follows."""


@router.get("", response_model=OwnerlessCollections)
async def list_ownerless_collections(
    request: Request, caller: Admin, query: Annotated[OwnerlessPage, Query()]
) -> Response:
    """Return a page of the collections of people who have left, newest first (`GET /api/admin/collections`)."""
    services = services_of(request)
    try:
        page = await services.ownerless_vector_stores.page(caller.organisation, COLLECTIONS_SHOWN, query.after)
    except DocumentNotFound as error:
        raise InvalidField("after", "There is no such collection.") from error
    counts = await services.vector_stores.counts(page.items)
    people = sorted({each.person for each in page.items})
    emails = {user.id: user.email for user in await services.access.members.users.find_all(people)} if people else {}
    shown = [
        OwnerlessCollection(
            id=each.id,
            name=each.name,
            person=emails.get(each.person, each.person),
            created=int(each.created),
            files=counts[each.id].total,
            size=counts[each.id].size,
        )
        for each in page.items
    ]
    return schema_response(OwnerlessCollections(collections=shown, has_more=page.has_more))


@router.delete("/{collection_id}", status_code=204)
async def delete_ownerless_collection(
    request: Request, caller: Admin, collection_id: str, _body: EmptyJson
) -> Response:
    """Delete a collection of a person who has left, with files (`DELETE /api/admin/collections/{collection_id}`)."""
    with not_found():
        deleted = await services_of(request).ownerless_vector_stores.delete(caller.organisation, collection_id)
    details = store_deleted(deleted).details
    await record_event(
        request, caller, Event.VECTOR_STORE_DELETED, deleted.id, project=deleted.project, details=details
    )
    return no_content()
