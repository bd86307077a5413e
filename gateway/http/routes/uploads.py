"""Routes of `/v1/uploads`: files that are uploaded in parts, which any gateway may receive, and joined at the end."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request, Response

from auth_billing.audit_log import Event
from gateway.http.api_documentation import document_form_route, document_route
from gateway.http.dependencies import CurrentGateway, FileCaller, body_of, file_guard
from gateway.http.document_audit import record_accesses
from gateway.http.file_transfers import file_form, missing_file, project_of
from gateway.http.json_response import json_response
from gateway.http.routes.files import file_object
from gateway.openai.files import Upload, UploadComplete, UploadCreate, UploadPart
from stored_objects.files.files import FILE_PREFIX, Purpose, public_id
from stored_objects.files.uploads import MAX_PART_BYTES, PART_PREFIX, UPLOAD_LIFETIME, UPLOAD_PREFIX
from stored_objects.objects.records import StoredObject
from stored_objects.vector_stores.audit_actions import project_file

router = APIRouter(prefix="/v1/uploads")


@router.post("", **document_route(Upload, body=UploadCreate))
async def create_upload(
    caller: FileCaller,
    gateway: CurrentGateway,
    body: Annotated[UploadCreate, Depends(body_of(UploadCreate, file_guard))],
) -> Response:
    """Create an upload, to which parts are added within an hour (`POST /v1/uploads`)."""
    upload = await gateway.uploads.create(
        project_of(caller),
        name=body.filename,
        purpose=Purpose(body.purpose),
        size=body.bytes,
        lifetime=body.lifetime,
    )
    return json_response(_upload(upload, "pending"))


@router.post("/{upload_id}/parts", **document_form_route(UploadPart, file="data"))
async def add_upload_part(upload_id: str, request: Request, caller: FileCaller, gateway: CurrentGateway) -> Response:
    """Store one part of an upload, of at most 64 MiB; parts may arrive in any order and at the same time.

    Answers `POST /v1/uploads/{upload_id}/parts`.
    """
    owner = project_of(caller)
    await gateway.uploads.find(owner, upload_id)
    form, size = await file_form(request, caller, MAX_PART_BYTES)
    stored: StoredObject | None = None
    async for part in form.parts():
        if part.name != "data" or stored is not None:
            raise missing_file("data")
        stored = await gateway.uploads.add_part(owner, upload_id, size, part.chunks())
    if stored is None:
        raise missing_file("data")
    id = public_id(PART_PREFIX, stored.id)
    return json_response(UploadPart(id=id, created_at=int(stored.created), upload_id=upload_id))


@router.post("/{upload_id}/complete", **document_route(Upload, body=UploadComplete))
async def complete_upload(
    upload_id: str,
    request: Request,
    caller: FileCaller,
    gateway: CurrentGateway,
    body: Annotated[UploadComplete, Depends(body_of(UploadComplete, file_guard))],
) -> Response:
    """Make a file of an upload's parts, in the order of `part_ids` (`POST /v1/uploads/{upload_id}/complete`)."""
    file = await gateway.uploads.complete(project_of(caller), upload_id, body.part_ids, body.md5)
    id = public_id(FILE_PREFIX, file.id)  # recorded afterwards, as the client repeats a request that fails here
    await record_accesses(request, caller, [project_file(Event.DOCUMENT_UPLOADED, id, file.name, caller.project)])
    return json_response(_upload(file, "completed"))


@router.post("/{upload_id}/cancel", **document_route(Upload))
async def cancel_upload(upload_id: str, caller: FileCaller, gateway: CurrentGateway) -> Response:
    """Cancel an upload and delete its parts (`POST /v1/uploads/{upload_id}/cancel`)."""
    upload = await gateway.uploads.cancel(project_of(caller), upload_id)
    return json_response(_upload(upload, "cancelled"))


def _upload(stored: StoredObject, status: Literal["pending", "completed", "cancelled"]) -> Upload:
    return Upload(
        id=public_id(UPLOAD_PREFIX, stored.id),
        bytes=stored.size,
        created_at=int(stored.created),
        expires_at=int(stored.created + UPLOAD_LIFETIME),
        filename=stored.name,
        purpose=stored.purpose,
        status=status,
        file=file_object(stored) if status == "completed" else None,
    )
