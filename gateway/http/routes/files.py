"""Routes of `/v1/files`: files of the caller's project, streamed into and out of the installation's blobs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from auth_billing.access.principal import Principal
from auth_billing.audit_log import Action, Event
from gateway.http.api_documentation import document_file_route, document_form_route, document_route
from gateway.http.dependencies import CurrentGateway, FileCaller
from gateway.http.document_audit import record_accesses
from gateway.http.file_transfers import download, file_form, missing_file, project_of
from gateway.http.json_response import json_response
from gateway.http.pagination import listed, query_of, unknown_after
from gateway.openai.files import FileCreate, FileDeleted, FileList, FileObject, FileQuery
from stored_objects.errors import BlobNotFound
from stored_objects.files.files import FILE_PREFIX, Purpose, clean_name, public_id
from stored_objects.objects.objects import DOWNLOAD
from stored_objects.objects.records import StoredObject
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.vector_stores.audit_actions import project_file

router = APIRouter(prefix="/v1/files")


@router.post("", **document_form_route(FileObject, form=FileCreate, file="file"))
async def create_file(request: Request, caller: FileCaller, gateway: CurrentGateway) -> Response:
    """Store the file of a form as a file of the project (`POST /v1/files`)."""
    files = gateway.files
    form, size = await file_form(request, caller, gateway.objects.file_limits.max_bytes)
    fields: dict[str, str] = {}
    async with files.pending(project_of(caller), size) as pending:
        written, name = None, ""
        async for part in form.parts():
            if part.name != "file":
                fields[part.name] = await part.text()
            elif part.filename is None or written is not None:
                raise missing_file("file")
            else:
                if "purpose" in fields:
                    FileCreate.parse_form(fields)  # refuses it before the file is read
                name, written = part.filename, await gateway.objects.write(pending, part.chunks())
        body = FileCreate.parse_form(fields)
        if written is None or not written.size:
            raise missing_file("file")
        named = replace(written, name=clean_name(name))
        await record_accesses(request, caller, [_action(Event.DOCUMENT_UPLOADED, named, caller)])
        stored = await files.finish(written, pending, name=name, purpose=Purpose(body.purpose), lifetime=body.lifetime)
    return json_response(file_object(stored))


@router.get("", **document_route(FileList, query=FileQuery))
async def list_files(
    caller: FileCaller, gateway: CurrentGateway, query: Annotated[FileQuery, Depends(query_of(FileQuery))]
) -> Response:
    """List a page of the project's files, newest first unless `order` says otherwise (`GET /v1/files`)."""
    try:
        found = await gateway.files.listed(
            project_of(caller),
            purpose=query.purpose,
            after=query.after,
            limit=query.limit + 1,  # one more shows whether there is another page
            descending=query.order == "desc",
        )
    except BlobNotFound as error:
        raise unknown_after() from error
    page = [file_object(each) for each in found[: query.limit]]
    return json_response(listed(FileList, page, has_more=len(found) > query.limit))


@router.get("/{file_id}", **document_route(FileObject))
async def retrieve_file(file_id: str, caller: FileCaller, gateway: CurrentGateway) -> Response:
    """Return one file of the project, without its content (`GET /v1/files/{file_id}`)."""
    return json_response(file_object(await gateway.files.find(project_of(caller), file_id)))


@router.delete("/{file_id}", **document_route(FileDeleted))
async def delete_file(file_id: str, request: Request, caller: FileCaller, gateway: CurrentGateway) -> Response:
    """Delete one file of the project, also from its vector stores (`DELETE /v1/files/{file_id}`)."""
    found = await gateway.files.find(project_of(caller), file_id)
    await record_accesses(request, caller, [_action(Event.DOCUMENT_DELETED, found, caller)])
    await gateway.vector_stores.delete_everywhere(ProjectOwner.of(caller), file_id)
    await gateway.files.delete(project_of(caller), file_id)
    return json_response(FileDeleted(id=file_id))


@router.get("/{file_id}/content", **document_file_route([DOWNLOAD]))
async def download_file(file_id: str, request: Request, caller: FileCaller, gateway: CurrentGateway) -> Response:
    """Return the content of one file of the project, as a download (`GET /v1/files/{file_id}/content`)."""
    stored = await gateway.files.find(project_of(caller), file_id)
    await record_accesses(request, caller, [_action(Event.DOCUMENT_DOWNLOADED, stored, caller)])
    return await download(gateway.objects, stored, public_id(FILE_PREFIX, stored.id))


def file_object(stored: StoredObject) -> FileObject:
    """Return a file as the API shows it."""
    return FileObject(
        id=public_id(FILE_PREFIX, stored.id),
        bytes=stored.size,
        created_at=int(stored.created),
        expires_at=int(stored.expires) if math.isfinite(stored.expires) else None,
        filename=stored.name,
        purpose=stored.purpose,
    )


def _action(event: Event, stored: StoredObject, caller: Principal) -> Action:
    return project_file(event, public_id(FILE_PREFIX, stored.id), stored.name, caller.project)
