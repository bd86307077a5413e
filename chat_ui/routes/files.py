"""`/api/export` and `/api/import`: conversations as files, out and in."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from chat_ui import rendering
from chat_ui.answers import NEVER_KEPT, shown
from chat_ui.bodies import raw_body
from chat_ui.chat import chat_of, owner_of
from chat_ui.errors import Busy
from chat_ui.exporting import tables as table_files
from chat_ui.exporting import texts
from chat_ui.exporting.contents import contents
from chat_ui.guard import Caller, takes_up_to
from chat_ui.shapes.imports import Import, LastImport
from infra.runtime import tables

router = APIRouter()

IMPORT_BYTES = 32 * 2**20
AT_ONCE = 2
"""Exports that a gateway makes at a time."""

_FORMATS = {
    "xlsx": (table_files.xlsx, tables.XLSX_TYPE, "xlsx"),
    "csv": (table_files.csv, tables.CSV_TYPE, "csv"),
    "json": (texts.as_json, "application/json", "json"),
    "markdown": (texts.as_markdown, "text/markdown; charset=utf-8", "md"),
}
_exports = asyncio.Semaphore(AT_ONCE)


class ExportQuery(BaseModel):
    """What is wanted, and as what."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    format: Literal["xlsx", "csv", "json", "markdown"]
    ids: Annotated[str, Field(min_length=1, max_length=8192)] = "all"
    """Conversations' ids with commas between them; `all`: all of them, archived ones too."""


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
    """Conversations as a file. Tables and Markdown have the branch that is shown, JSON has all of them."""
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
    """Begin to take in conversations of ChatGPT's (`conversations.json`), of Open WebUI's, or of this chat's JSON.

    It goes on whether anybody looks or not; `GET /import` tells how far it is. What is there already is not taken
    again; a conversation that has grown since comes as another one.
    """
    chat = chat_of(request)
    raw = await raw_body(request)
    models = await chat.engine.models(chat.principal(caller))
    model = next((each.id for each in models if each.ready), "")
    return shown(rendering.import_of(await chat.importer.begin(owner_of(caller), raw, model)), 202)


@router.get("/import", response_model=LastImport)
async def last_import(request: Request, caller: Caller) -> Response:
    """How far the caller's last import is, from any gateway."""
    last = await chat_of(request).importer.last(owner_of(caller))
    return shown(LastImport(last=None if last is None else rendering.import_of(last)))
