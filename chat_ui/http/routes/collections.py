"""HTTP routes of the collections of documents that people upload and search: `/api/collections`.

A collection is a vector store. Gateways import the files and search them (`chat_ui/document_search.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from auth_billing.access.principal import Principal
from auth_billing.audit_log import Event
from auth_billing.people.input_normalisation import checked_name
from chat_ui.errors import InvalidField
from chat_ui.http.access_control import Caller, max_body
from chat_ui.http.collection_access import (
    billed_principal,
    find_collection,
    not_found,
    principal_of,
    record_accesses,
    within_quota,
)
from chat_ui.http.request_bodies import Body, EmptyJson, body_of
from chat_ui.http.responses import no_content, schema_response
from chat_ui.http.schemas.base import QueryParameters
from chat_ui.http.schemas.collections import (
    Collection,
    CollectionFile,
    CollectionFiles,
    CollectionList,
    DocumentPassage,
    DocumentPassages,
    FoundPassage,
    FoundPassages,
)
from chat_ui.http.uploads import stored_upload
from chat_ui.services import ChatServices, client_address, record_event, services_of
from documents.content import Passage
from documents.parsing.parser import MAX_FILE_BYTES
from stored_objects.errors import BlobNotFound, DocumentNotFound
from stored_objects.files.files import FILE_PREFIX, MAX_NAME, Purpose, public_id
from stored_objects.objects.records import ObjectOwner
from stored_objects.vector_stores import audit_actions
from stored_objects.vector_stores.access import ORGANISATION, Reader, StoreScope
from stored_objects.vector_stores.passages import BLOCK_PASSAGES
from stored_objects.vector_stores.records import FileCounts, FileState, PageQuery, VectorStore, VectorStoreFile

router = APIRouter(prefix="/collections")

COLLECTIONS_SHOWN = 100
"""Collections of a page of the list."""
FILES_SHOWN = 100
"""Files of a page of a collection's files."""
RESULTS = 10
"""Most passages that a search finds."""
MAX_PASSAGES = 40
"""Most passages of a document that are read at once."""
MAX_QUERY = 2000
"""Characters of a question."""


class NewCollectionBody(Body):
    """Name and owner of a new collection."""

    name: str
    scope: Literal["person", "project", "organisation"] = "person"


class CollectionBody(Body):
    """The name of a collection."""

    name: str


class SearchBody(Body):
    """A question, to which passages are searched for."""

    query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY)]


class NewFile(QueryParameters):
    """Query parameters of a new file, whose content is the body."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


class CollectionPage(QueryParameters):
    """Query parameters of a page of collections."""

    after: Annotated[str, Field(max_length=100)] | None = None
    """Id of the collection that the page follows."""


class FilePage(QueryParameters):
    """Query parameters of a page of files."""

    after: str | None = None
    """Id of the file that the page follows."""
    failed: bool = False
    """Whether to list only files that could not be read."""


class PassageRange(QueryParameters):
    """Query parameters of consecutive passages of a document."""

    first: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_PASSAGES)] = MAX_PASSAGES


NewCollectionJson = Annotated[NewCollectionBody, Depends(body_of(NewCollectionBody))]
CollectionJson = Annotated[CollectionBody, Depends(body_of(CollectionBody))]
SearchJson = Annotated[SearchBody, Depends(body_of(SearchBody))]


@router.get("", response_model=CollectionList)
async def list_collections(request: Request, caller: Caller, query: Annotated[CollectionPage, Query()]) -> Response:
    """Return a page of the collections, the newest first (`GET /api/collections`)."""
    principal, services = await principal_of(request, caller), services_of(request)
    try:
        page = await services.vector_stores.page(Reader.of(principal), PageQuery(COLLECTIONS_SHOWN), after=query.after)
    except DocumentNotFound as error:
        raise InvalidField("after", "There is no such collection.") from error
    shown = await _shown(services, principal, page.items)
    return schema_response(CollectionList(collections=shown, has_more=page.has_more))


@router.post("", response_model=Collection, status_code=201)
async def create_collection(request: Request, caller: Caller, body: NewCollectionJson) -> Response:
    """Create a collection (`POST /api/collections`)."""
    principal = await billed_principal(request, caller)
    services, scope = services_of(request), StoreScope(body.scope)
    with within_quota():
        store = await services.document_search.create(principal, checked_name(body.name), scope)
    if scope is StoreScope.ORGANISATION:
        await record_event(
            request,
            caller,
            Event.VECTOR_STORE_SHARED,
            store.id,
            project=store.project,
            details={"reader": ORGANISATION},
        )
    (shown,) = await _shown(services, principal, [store])
    return schema_response(shown, 201)


@router.patch("/{collection_id}", response_model=Collection)
async def rename_collection(request: Request, caller: Caller, collection_id: str, body: CollectionJson) -> Response:
    """Rename a collection (`PATCH /api/collections/{collection_id}`)."""
    principal, services = await principal_of(request, caller), services_of(request)
    store = await find_collection(services, principal, collection_id, change=True)
    with not_found(), within_quota():
        changed = await services.vector_stores.update(
            store, name=checked_name(body.name), metadata=store.metadata, expiry_days=store.expiry_days
        )
    (shown,) = await _shown(services, principal, [changed])
    return schema_response(shown)


@router.delete("/{collection_id}", status_code=204)
async def delete_collection(request: Request, caller: Caller, collection_id: str, _body: EmptyJson) -> Response:
    """Delete a collection and the files that people have uploaded to it (`DELETE /api/collections/{collection_id}`)."""
    services = services_of(request)
    principal = await principal_of(request, caller)
    store = await find_collection(services, principal, collection_id, change=True)
    await record_accesses(request, principal, [audit_actions.store_deleted(store)])
    await services.vector_stores.delete(store)
    return no_content()


@router.get("/{collection_id}/files", response_model=CollectionFiles)
async def list_collection_files(
    request: Request, caller: Caller, collection_id: str, query: Annotated[FilePage, Query()]
) -> Response:
    """Return a collection with a page of its files (`GET /api/collections/{collection_id}/files`)."""
    principal, services = await principal_of(request, caller), services_of(request)
    store = await find_collection(services, principal, collection_id)
    state = FileState.FAILED if query.failed else None
    try:
        page = await services.vector_stores.page_files(store, PageQuery(FILES_SHOWN), after=query.after, state=state)
    except DocumentNotFound as error:
        raise InvalidField("after", "The collection has no such file.") from error
    files = [_shown_file(each) for each in page.items]
    (collection,) = await _shown(services, principal, [store])
    return schema_response(CollectionFiles(collection=collection, files=files, has_more=page.has_more))


@router.post(
    "/{collection_id}/files",
    response_model=CollectionFile,
    status_code=201,
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": {}}}}},
)
@max_body(MAX_FILE_BYTES)
async def upload_file(
    request: Request, caller: Caller, collection_id: str, query: Annotated[NewFile, Query()]
) -> Response:
    """Store the body as a file of a collection, which is read in the background.

    Answers `POST /api/collections/{collection_id}/files`.
    """
    principal, services = await billed_principal(request, caller), services_of(request)
    store = await find_collection(services, principal, collection_id, change=True)
    owner = ObjectOwner(principal.tenant, principal.user)
    file = await stored_upload(
        request, services.files, owner, MAX_FILE_BYTES, name=query.name, purpose=Purpose.ASSISTANTS
    )
    id = public_id(FILE_PREFIX, file.id)
    try:
        await record_accesses(request, principal, [audit_actions.uploaded(store.id, store.project, id, file.name)])
        with not_found(), within_quota():
            await services.document_search.add(principal, store, file)
    except Exception:
        with suppress(BlobNotFound):  # the deletion of the collection may have deleted it
            await services.files.objects.delete(file.id, owner)
        raise
    added = await services.vector_stores.find_file(store, id)
    return schema_response(_shown_file(added), 201)


@router.delete("/{collection_id}/files/{file_id}", status_code=204)
async def delete_collection_file(
    request: Request, caller: Caller, collection_id: str, file_id: str, _body: EmptyJson
) -> Response:
    """Delete a file of a collection (`DELETE /api/collections/{collection_id}/files/{file_id}`)."""
    services = services_of(request)
    principal = await principal_of(request, caller)
    store = await find_collection(services, principal, collection_id, change=True)
    with not_found():
        file = await services.vector_stores.find_file(store, file_id)
    await record_accesses(request, principal, [audit_actions.file_deleted(file)])
    await services.vector_stores.erase(file)
    return no_content()


@router.post("/{collection_id}/search", response_model=FoundPassages)
async def search_collection(request: Request, caller: Caller, collection_id: str, body: SearchJson) -> Response:
    """Return the passages that fit a question best (`POST /api/collections/{collection_id}/search`)."""
    principal, services = await billed_principal(request, caller), services_of(request)
    store = await find_collection(services, principal, collection_id)
    found = await services.document_search.search(
        principal, store, body.query, RESULTS, address=client_address(request)
    )
    return schema_response(FoundPassages(passages=[FoundPassage.model_validate(each) for each in found]))


@router.get("/{collection_id}/files/{file_id}/passages", response_model=DocumentPassages)
async def read_passages(
    request: Request, caller: Caller, collection_id: str, file_id: str, query: Annotated[PassageRange, Query()]
) -> Response:
    """Return consecutive passages of a document (`GET /api/collections/{collection_id}/files/{file_id}/passages`)."""
    services, principal = services_of(request), await principal_of(request, caller)
    store = await find_collection(services, principal, collection_id)
    with not_found():
        file = await services.vector_stores.find_file(store, file_id)
    end = query.first + query.limit
    first_block, last_block = query.first // BLOCK_PASSAGES, end // BLOCK_PASSAGES
    blocks = []
    if file.state is FileState.COMPLETED:
        blocks = await services.vector_stores.passages.read(
            store.organisation, file.passages, first_block, last_block - first_block + 1
        )
    numbered = enumerate((each for block in blocks for each in block.passages), first_block * BLOCK_PASSAGES)
    found = [(number, each) for number, each in numbered if query.first <= number <= end]
    shown = [_shown_passage(number, each) for number, each in found if number < end]
    await record_accesses(request, principal, [audit_actions.read(file, len(shown))])
    return schema_response(
        DocumentPassages(collection=store.name, name=file.name, passages=shown, has_more=len(found) > len(shown))
    )


async def _shown(services: ChatServices, principal: Principal, stores: Sequence[VectorStore]) -> list[Collection]:
    """Return collections as `principal` sees them, with the counts of their files."""
    counts, reader = await services.vector_stores.counts(stores), Reader.of(principal)
    others = sorted({each.person for each in stores} - {"", principal.user})
    names = {user.id: user.name for user in await services.access.members.users.find_all(others)} if others else {}
    return [_collection(each, counts.get(each.id, FileCounts()), reader, names.get(each.person)) for each in stores]


def _collection(store: VectorStore, counts: FileCounts, reader: Reader, person: str | None) -> Collection:
    return Collection(
        id=store.id,
        name=store.name,
        scope=StoreScope.of(store).value,
        person=person,
        may_change=reader.may_change(store),
        is_shared=bool(store.shared_with),
        created=int(store.created),
        in_progress=counts.in_progress,
        completed=counts.completed,
        failed=counts.failed,
        size=counts.size,
    )


def _shown_file(file: VectorStoreFile) -> CollectionFile:
    failure = file.failure
    return CollectionFile.model_validate(
        {
            "id": file.file,
            "name": file.name,
            "created": int(file.created),
            "state": file.state.value,
            "problem": None if failure is None else failure.code,
            "reason": None if failure is None else failure.message,
            "warning": file.warning or None,
        }
    )


def _shown_passage(number: int, passage: Passage) -> DocumentPassage:
    return DocumentPassage(
        number=number,
        text=passage.text[len(passage.text) - (passage.end - passage.start) :],  # without a repeated table header
        start=passage.start,
        end=passage.end,
        page=passage.page,
        heading_path=list(passage.heading_path),
    )
