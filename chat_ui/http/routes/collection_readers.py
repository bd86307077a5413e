"""HTTP routes of the rights to read a collection of documents: `/api/collections/{collection_id}/readers`."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request, Response

from auth_billing.access.principal import Principal
from auth_billing.audit_log import Event
from auth_billing.people.input_normalisation import checked_email
from chat_ui.errors import InvalidField, NoSuchMember
from chat_ui.http.access_control import Caller
from chat_ui.http.collection_access import find_collection, not_found, principal_of
from chat_ui.http.request_bodies import Body, EmptyJson, body_of
from chat_ui.http.responses import no_content, schema_response
from chat_ui.http.schemas.collections import CollectionReaders, PersonReader
from chat_ui.services import ChatServices, record_event, services_of
from stored_objects.vector_stores.access import ORGANISATION, person_grantee, person_of, project_grantee
from stored_objects.vector_stores.records import VectorStore

router = APIRouter(prefix="/collections/{collection_id}/readers")

MAX_READERS = 200
"""Most people that a collection is shared with by name."""


class ReaderBody(Body):
    """Who gets the right to read: the project, the organisation, or the member with an e-mail address."""

    reader: Literal["project", "organisation", "person"]
    email: str = ""


ReaderJson = Annotated[ReaderBody, Depends(body_of(ReaderBody))]


@router.get("", response_model=CollectionReaders)
async def list_readers(request: Request, caller: Caller, collection_id: str) -> Response:
    """Return whom a collection is shared with (`GET /api/collections/{collection_id}/readers`)."""
    principal, services = await principal_of(request, caller), services_of(request)
    store = await find_collection(services, principal, collection_id, change=True)
    return schema_response(await _readers(services, principal, store))


@router.post("", response_model=CollectionReaders)
async def add_reader(request: Request, caller: Caller, collection_id: str, body: ReaderJson) -> Response:
    """Share a collection (`POST /api/collections/{collection_id}/readers`)."""
    principal, services = await principal_of(request, caller), services_of(request)
    store = await find_collection(services, principal, collection_id, change=True)
    if body.reader == "person":
        if len(store.shared_with) >= MAX_READERS:
            raise InvalidField("email", f"A collection is shared with {MAX_READERS} people at most.")
        grantee = person_grantee(await _member(services, principal.tenant, checked_email(body.email)))
    elif body.reader == "project" and not principal.project:
        raise InvalidField("reader", "The organisation has no project in use.")
    else:
        grantee = _grantee(principal, body.reader)
    with not_found():
        await services.vector_stores.share(store, grantee)
    await record_event(
        request, caller, Event.VECTOR_STORE_SHARED, store.id, project=store.project, details={"reader": grantee}
    )
    store = await find_collection(services, principal, collection_id, change=True)
    return schema_response(await _readers(services, principal, store))


@router.delete("/{reader}", status_code=204)
async def remove_reader(
    request: Request, caller: Caller, collection_id: str, reader: str, _body: EmptyJson
) -> Response:
    """Take the right to read a collection away from the project, the organisation or a person by id.

    Answers `DELETE /api/collections/{collection_id}/readers/{reader}`.
    """
    principal, services = await principal_of(request, caller), services_of(request)
    store = await find_collection(services, principal, collection_id, change=True)
    grantee = _grantee(principal, reader)
    await services.vector_stores.unshare(store, grantee)
    await record_event(
        request, caller, Event.VECTOR_STORE_UNSHARED, store.id, project=store.project, details={"reader": grantee}
    )
    return no_content()


def _grantee(principal: Principal, reader: str) -> str:
    """Return the grantee of a reader; the project is that of the chat, whichever the collection was created in."""
    if reader == "organisation":
        return ORGANISATION
    return project_grantee(principal.project) if reader == "project" else person_grantee(reader)


async def _member(services: ChatServices, organisation: str, email: str) -> str:
    """Return the id of the member of an organisation with an e-mail address."""
    members = services.access.members
    user = await members.users.find_by_email(email)
    if user is None or await members.memberships.find(organisation, user.id) is None:
        raise NoSuchMember(email)
    return user.id


async def _readers(services: ChatServices, principal: Principal, store: VectorStore) -> CollectionReaders:
    ids = [id for grantee in store.shared_with if (id := person_of(grantee)) is not None]
    people = await services.access.members.users.find_all(ids) if ids else []
    return CollectionReaders(
        project=project_grantee(principal.project) in store.readers,
        organisation=ORGANISATION in store.readers,
        people=[PersonReader.model_validate(each) for each in sorted(people, key=lambda each: each.email)],
    )
