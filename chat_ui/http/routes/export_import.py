"""HTTP routes of exporting and importing conversations: `/api/export`, `/api/import`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from chat_ui.errors import Busy
from chat_ui.exporting import table_files, text_files
from chat_ui.exporting.conversation_batches import conversation_batches
from chat_ui.http.access_control import Caller, max_body
from chat_ui.http.request_bodies import spooled_body
from chat_ui.http.responses import NO_STORE, schema_response
from chat_ui.http.schemas.base import QueryParameters
from chat_ui.http.schemas.imports import Import, LastImport
from chat_ui.services import owner_of, services_of
from runtime import tables

router = APIRouter()

IMPORT_BYTES = 32 * 2**20
MAX_CONCURRENT = 2
"""Exports that run in a gateway process at a time."""

_FORMATS = {
    "xlsx": (table_files.xlsx, tables.XLSX_TYPE, "xlsx"),
    "csv": (table_files.csv, tables.CSV_TYPE, "csv"),
    "json": (text_files.as_json, "application/json", "json"),
    "markdown": (text_files.as_markdown, "text/markdown; charset=utf-8", "md"),
}
_exports = asyncio.Semaphore(MAX_CONCURRENT)


class ExportQuery(QueryParameters):
    """Query parameters of an export."""

    format: Literal["xlsx", "csv", "json", "markdown"]
    ids: Annotated[str, Field(min_length=1, max_length=8192)] = "all"
    """Ids of conversations, separated by commas; `all`: all conversations, archived ones too."""


@router.get(
    "/export",
    response_class=Response,
    responses={
        200: {
            "description": "The file",
            "content": {
                kind.partition(";")[0]: {"schema": {"type": "string", "format": "binary"}}
                for _, kind, _ in _FORMATS.values()
            },
        }
    },
)
async def export(request: Request, caller: Caller, query: Annotated[ExportQuery, Query()]) -> Response:
    """Return conversations of the caller as a CSV, XLSX, Markdown or JSON file (`GET /api/export`).

    JSON has all branches, the other formats the selected branch.
    """
    write, media_type, ending = _FORMATS[query.format]
    conversations, owner = services_of(request).conversations, owner_of(caller)
    chosen = None
    if query.ids != "all":
        chosen = [await conversations.find(owner, each) for each in dict.fromkeys(query.ids.split(","))]
    if _exports.locked():
        raise Busy
    async with _exports:
        file = await write(conversation_batches(services_of(request).lists, owner, chosen))
    name = f"conversations-{datetime.now(UTC).date().isoformat()}.{ending}"
    headers = {**NO_STORE, "content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(tables.chunks(file), media_type=media_type, headers=headers)


@router.post(
    "/import",
    response_model=Import,
    status_code=202,
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/json": {"schema": {}}}},
    },
)
@max_body(IMPORT_BYTES)
async def import_conversations(request: Request, caller: Caller) -> Response:
    """Start importing an export file of ChatGPT (`conversations.json`), Open WebUI or this chat (`POST /api/import`).

    The import runs in the background; `GET /api/import` returns its progress. Conversations that exist already are not
    imported again; one that has grown since its last import becomes a second conversation.
    """
    services = services_of(request)
    models = await services.model_client.models(await services.principal(caller))
    model = next((each.id for each in models if each.ready), "")
    begun = await services.importer.begin(owner_of(caller), partial(spooled_body, request), model)
    return schema_response(Import.model_validate(begun), 202)


@router.get("/import", response_model=LastImport)
async def last_import(request: Request, caller: Caller) -> Response:
    """Return the progress or result of the caller's last import, whichever gateway runs it (`GET /api/import`)."""
    last = await services_of(request).importer.last(owner_of(caller))
    return schema_response(LastImport.model_validate({"last": last}))
