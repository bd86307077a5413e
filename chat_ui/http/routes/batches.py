"""HTTP routes of the batches of the project that chats are billed to: `/api/batches`. Gateways run the batches."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from auth_billing.errors import NoSuchRecord, NotPermitted
from auth_billing.people.sessions import BrowserSession
from chat_ui.errors import InvalidField
from chat_ui.http.access_control import Caller, max_body
from chat_ui.http.request_bodies import EmptyJson
from chat_ui.http.responses import NO_STORE, schema_response
from chat_ui.http.schemas.base import QueryParameters
from chat_ui.http.schemas.batches import Batch, BatchList, LineProblem
from chat_ui.http.uploads import stored_upload
from chat_ui.services import services_of
from stored_objects.errors import BatchEnded, BlobNotFound, DocumentNotFound
from stored_objects.files.files import MAX_NAME, Purpose
from stored_objects.objects.objects import DOWNLOAD
from stored_objects.objects.records import ObjectOwner
from stored_objects.project_documents.batches import MAX_INPUT_BYTES, BatchState, Endpoint
from stored_objects.project_documents.batches import Batch as BatchRecord

router = APIRouter()

SHOWN = 50
"""Most batches that a list has."""
MAX_PROBLEMS = 20
"""Most lines of a failed batch that are named."""


class NewBatch(QueryParameters):
    """Query parameters of a new batch, whose input file is the body."""

    endpoint: Endpoint
    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    """Name of the input file."""


@router.get("/batches", response_model=BatchList)
async def list_batches(request: Request, caller: Caller) -> Response:
    """Return the newest batches of the project that chats are billed to (`GET /api/batches`)."""
    principal = await _principal(request, caller)
    found = await services_of(request).batches.page(principal.tenant, principal.project, after=None, limit=SHOWN)
    return schema_response(BatchList(batches=[_shown(each) for each in found]))


@router.post(
    "/batches",
    response_model=Batch,
    status_code=201,
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": {}}}}},
)
@max_body(MAX_INPUT_BYTES)
async def create_batch(request: Request, caller: Caller, query: Annotated[NewBatch, Query()]) -> Response:
    """Store the body, lines of JSON, as a file of the project, and create a batch of its requests.

    Answers `POST /api/batches`.
    """
    principal = await _principal(request, caller)
    owner = ObjectOwner.of_project(principal.tenant, principal.project)
    file = await stored_upload(
        request, services_of(request).files, owner, MAX_INPUT_BYTES, name=query.name, purpose=Purpose.BATCH
    )
    batch = await services_of(request).batches.create(principal, file, query.endpoint)
    return schema_response(_shown(batch), 201)


@router.post("/batches/{batch_id}/cancel", response_model=Batch)
async def cancel_batch(request: Request, caller: Caller, batch_id: str, _body: EmptyJson) -> Response:
    """Cancel a batch: running lines end, others are not requested (`POST /api/batches/{batch_id}/cancel`)."""
    principal = await _principal(request, caller)
    try:
        batch = await services_of(request).batches.cancel(principal.tenant, principal.project, batch_id)
    except DocumentNotFound as error:
        raise NoSuchRecord(str(error)) from error
    except BatchEnded as error:
        raise InvalidField("batch_id", "The batch has ended.") from error
    return schema_response(_shown(batch))


@router.get(
    "/batches/{batch_id}/{file}",
    response_class=Response,
    responses={200: {"description": "The file", "content": {DOWNLOAD: {"schema": {"type": "string"}}}}},
)
async def download_results(
    request: Request, caller: Caller, batch_id: str, file: Literal["output", "errors"]
) -> Response:
    """Return the lines that were answered, or those that ended with an error, as a JSON lines file.

    Answers `GET /api/batches/{batch_id}/{file}`.
    """
    principal, services = await _principal(request, caller), services_of(request)
    try:
        batch = await services.batches.find(principal.tenant, principal.project, batch_id)
        stored = await services.files.objects.find(
            batch.owner, batch.output_file if file == "output" else batch.error_file
        )
    except (DocumentNotFound, BlobNotFound) as error:
        raise NoSuchRecord(str(error)) from error
    headers = {**NO_STORE, "content-disposition": f'attachment; filename="{batch.id}_{file}.jsonl"'}
    headers["content-length"] = str(stored.size)
    return StreamingResponse(services.files.objects.stream(stored), media_type=DOWNLOAD, headers=headers)


async def _principal(request: Request, caller: BrowserSession) -> Principal:
    """Return the caller's principal.

    Raises:
        NotPermitted: the caller may create no batches, or the organisation has no project in use.
    """
    principal = await services_of(request).principal(caller)
    if not principal.may(Scope.BATCHES) or not principal.project:
        raise NotPermitted("no batches for this role, or there is no project")
    return principal


def _shown(batch: BatchRecord) -> Batch:
    progress, ended = batch.progress, not batch.state.is_open
    began = batch.times.get(BatchState.IN_PROGRESS.value)
    return Batch(
        id=batch.id,
        name=batch.input_name,
        model=batch.model,
        endpoint=batch.endpoint,
        state=batch.state.value,
        total=batch.total,
        completed=progress.completed,
        failed=progress.failed,
        problems=[LineProblem(line=each.line, message=each.message) for each in batch.failures[:MAX_PROBLEMS]],
        created=int(batch.created),
        began=None if began is None else int(began),
        expires=int(batch.expires),
        has_output=ended and bool(batch.output_file),
        has_errors=ended and bool(batch.error_file),
    )
