"""Routes of exporting and importing conversations: `/api/export`, `/api/import`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from chat_ui.chat import chat_of, owner_of
from chat_ui.errors import Busy
from chat_ui.exporting import tables as table_files
from chat_ui.exporting import texts
from chat_ui.exporting.contents import contents
from chat_ui.http import rendering
from chat_ui.http.answers import NEVER_KEPT, shown
from chat_ui.http.bodies import raw_body
from chat_ui.http.guard import Caller, takes_up_to
from chat_ui.http.shapes.imports import Import, LastImport
from runtime import tables

router = APIRouter()

IMPORT_BYTES = 32 * 2**20
AT_ONCE = 2
"""Exports that run in a gateway process at a time."""

_FORMATS = {
    "xlsx": (table_files.xlsx, tables.XLSX_TYPE, "xlsx"),
    "csv": (table_files.csv, tables.CSV_TYPE, "csv"),
    "json": (texts.as_json, "application/json", "json"),
    "markdown": (texts.as_markdown, "text/markdown; charset=utf-8", "md"),
}
_exports = asyncio.Semaphore(AT_ONCE)


class ExportQuery(BaseModel):
    """Query parameters of an export."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

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
    """Export conversations as a file. Tables and Markdown contain the selected branch, JSON contains all branches."""
    write, media_type, ending = _FORMATS[query.format]
    conversations, owner = chat_of(request).conversations, owner_of(caller)
    chosen = None
    if query.ids != "all":
        chosen = [await conversations.find(owner, each) for each in dict.fromkeys(query.ids.split(","))]
    if _exports.locked():
        raise Busy
    async with _exports:
        file = await write(contents(chat_of(request).listing, owner, chosen))
    name = f"conversations-{datetime.now(UTC).date().isoformat()}.{ending}"
    headers = {**NEVER_KEPT, "content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(tables.chunks(file), media_type=media_type, headers=headers)


@router.post(
    "/import",
    response_model=Import,
    status_code=202,
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/json": {"schema": {}}}},
    },
)
@takes_up_to(IMPORT_BYTES)
async def import_conversations(request: Request, caller: Caller) -> Response:
    """Start importing an export file of ChatGPT (`conversations.json`), Open WebUI or this chat (JSON).

    The import runs in the background; `GET /import` returns its progress. Conversations that exist already are not
    imported again; one that has grown since its last import becomes a second conversation.
    """
    chat = chat_of(request)
    raw = await raw_body(request)
    models = await chat.engine.models(chat.principal(caller))
    model = next((each.id for each in models if each.ready), "")
    return shown(rendering.import_of(await chat.importer.begin(owner_of(caller), raw, model)), 202)


@router.get("/import", response_model=LastImport)
async def last_import(request: Request, caller: Caller) -> Response:
    """Return the progress of the caller's last import, on any gateway."""
    last = await chat_of(request).importer.last(owner_of(caller))
    return shown(LastImport(last=None if last is None else rendering.import_of(last)))
