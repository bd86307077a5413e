"""Routes of `/v1/batches`: create, list, retrieve and cancel batches of the caller's project.

Gateways run them in the background (`gateway/batches/`).
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from auth_billing.access.principal import Principal
from gateway.errors import InvalidRequest, ScopeMissing
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import BatchCaller, CurrentGateway, batch_guard, body_of
from gateway.http.file_transfers import project_of
from gateway.http.gateway import Gateway
from gateway.http.json_response import json_response
from gateway.http.pagination import listed, query_of, unknown_after
from gateway.openai.batches import (
    SCOPES,
    BatchCreate,
    BatchList,
    BatchObject,
    BatchUsage,
    InputTokensDetails,
    LineError,
    LineErrors,
    OutputTokensDetails,
    RequestCounts,
)
from gateway.openai.pagination import PageQuery
from stored_objects.errors import BatchEnded, BlobNotFound, DocumentNotFound
from stored_objects.files.files import FILE_PREFIX, Purpose, public_id
from stored_objects.objects.records import StoredObject
from stored_objects.project_documents.batches import MAX_INPUT_BYTES, Batch, BatchState

router = APIRouter(prefix="/v1/batches")


@router.post("", **document_route(BatchObject, body=BatchCreate))
async def create_batch(
    caller: BatchCaller,
    gateway: CurrentGateway,
    body: Annotated[BatchCreate, Depends(body_of(BatchCreate, batch_guard))],
) -> Response:
    """Create a batch of the requests in a file; a gateway runs it in the background (`POST /v1/batches`)."""
    if not caller.may(scope := SCOPES[body.endpoint]):
        raise ScopeMissing(scope)
    file = await _input_file(caller, gateway, body.input_file_id)
    batch = await gateway.batches.create(
        caller,
        file,
        body.endpoint,
        metadata=body.metadata,
        output_lifetime=None if body.output_expires_after is None else float(body.output_expires_after.seconds),
    )
    return json_response(_shown(batch))


@router.get("", **document_route(BatchList, query=PageQuery))
async def list_batches(
    caller: BatchCaller, gateway: CurrentGateway, query: Annotated[PageQuery, Depends(query_of(PageQuery))]
) -> Response:
    """List a page of the project's batches, newest first (`GET /v1/batches`)."""
    try:
        found = await gateway.batches.page(caller.tenant, caller.project, after=query.after, limit=query.limit + 1)
    except DocumentNotFound as error:
        raise unknown_after() from error
    page = [_shown(each) for each in found[: query.limit]]
    return json_response(listed(BatchList, page, has_more=len(found) > query.limit))


@router.get("/{batch_id}", **document_route(BatchObject))
async def retrieve_batch(batch_id: str, caller: BatchCaller, gateway: CurrentGateway) -> Response:
    """Return one batch of the project (`GET /v1/batches/{batch_id}`)."""
    return json_response(_shown(await gateway.batches.find(caller.tenant, caller.project, batch_id)))


@router.post("/{batch_id}/cancel", **document_route(BatchObject))
async def cancel_batch(batch_id: str, caller: BatchCaller, gateway: CurrentGateway) -> Response:
    """Cancel a batch: running lines end, others are not requested (`POST /v1/batches/{batch_id}/cancel`)."""
    try:
        batch = await gateway.batches.cancel(caller.tenant, caller.project, batch_id)
    except BatchEnded as error:
        raise InvalidRequest(str(error), param="batch_id") from error
    return json_response(_shown(batch))


async def _input_file(caller: Principal, gateway: Gateway, file_id: str) -> StoredObject:
    try:
        file = await gateway.files.find(project_of(caller), file_id)
    except BlobNotFound as error:
        raise InvalidRequest("Invalid 'input_file_id': there is no such file.", param="input_file_id") from error
    if file.purpose != Purpose.BATCH:
        raise InvalidRequest("Invalid 'input_file_id': its purpose is not 'batch'.", param="input_file_id")
    if file.size > MAX_INPUT_BYTES:
        message = f"Invalid 'input_file_id': the file is larger than {MAX_INPUT_BYTES} bytes."
        raise InvalidRequest(message, param="input_file_id")
    return file


def _shown(batch: Batch) -> BatchObject:
    progress = batch.progress
    ended = not batch.state.is_open
    errors = [
        LineError(code=each.code, message=each.message, param=each.param, line=each.line) for each in batch.failures
    ]
    return BatchObject(
        id=batch.id,
        endpoint=batch.endpoint,
        model=batch.model,
        errors=LineErrors(data=errors) if errors else None,
        input_file_id=public_id(FILE_PREFIX, batch.input_file),
        input_file_name=batch.input_name,
        status=batch.state.value,
        output_file_id=public_id(FILE_PREFIX, batch.output_file) if ended and batch.output_file else None,
        error_file_id=public_id(FILE_PREFIX, batch.error_file) if ended and batch.error_file else None,
        created_at=int(batch.created),
        expires_at=int(batch.expires),
        in_progress_at=_at(batch, BatchState.IN_PROGRESS),
        finalizing_at=_at(batch, BatchState.FINALIZING),
        completed_at=_at(batch, BatchState.COMPLETED),
        failed_at=_at(batch, BatchState.FAILED),
        expired_at=_at(batch, BatchState.EXPIRED),
        cancelling_at=_at(batch, BatchState.CANCELLING),
        cancelled_at=_at(batch, BatchState.CANCELLED),
        request_counts=RequestCounts(total=batch.total, completed=progress.completed, failed=progress.failed),
        usage=BatchUsage(
            input_tokens=progress.input_tokens,
            input_tokens_details=InputTokensDetails(cached_tokens=progress.cached_tokens),
            output_tokens=progress.output_tokens,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=progress.reasoning_tokens),
            total_tokens=progress.input_tokens + progress.output_tokens,
        ),
        metadata=batch.metadata,
    )


def _at(batch: Batch, state: BatchState) -> int | None:
    """Return when a batch got into a state, in Unix seconds; `None` if it did not."""
    at = batch.times.get(state.value)
    return None if at is None else int(at)
