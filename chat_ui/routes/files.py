"""`/api/export` and `/api/import`: conversations as files, out and in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from chat_ui.answers import NEVER_KEPT, shown
from chat_ui.bodies import raw_body
from chat_ui.chat import chat_of, owner_of
from chat_ui.conversations import Conversations
from chat_ui.errors import Busy
from chat_ui.exporting import tables as table_files
from chat_ui.exporting import texts
from chat_ui.guard import Caller, takes_up_to
from chat_ui.history.records import Conversation, Message, Owner
from chat_ui.importing.files import take_in
from chat_ui.shapes.presets import Imported, SkippedConversation
from infra.runtime import strict_json, tables

router = APIRouter()

IMPORT_BYTES = 32 * 2**20
MOST_CONTAINERS = 2_000_000
"""Arrays and objects in such a file."""
AT_ONCE = 2
"""Exports that a gateway makes at a time, and imports."""
PAGE = 100

_FORMATS = {
    "xlsx": (table_files.xlsx, tables.XLSX_TYPE, "xlsx"),
    "csv": (table_files.csv, tables.CSV_TYPE, "csv"),
    "json": (texts.as_json, "application/json", "json"),
    "markdown": (texts.as_markdown, "text/markdown; charset=utf-8", "md"),
}
_exports = asyncio.Semaphore(AT_ONCE)
_imports = asyncio.Semaphore(AT_ONCE)


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
        file = await write(_whole(conversations, owner, chosen))
    name = f"conversations-{datetime.now(UTC).date().isoformat()}.{ending}"
    headers = {**NEVER_KEPT, "content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(tables.chunks(file), media_type=media_type, headers=headers)


@router.post(
    "/import",
    response_model=Imported,
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/json": {"schema": {}}}},
    },
)
@takes_up_to(IMPORT_BYTES)
async def import_conversations(request: Request, caller: Caller) -> Response:
    """Take in conversations of ChatGPT's (`conversations.json`), of Open WebUI's, or of this chat's JSON."""
    if _imports.locked():
        raise Busy
    async with _imports:
        value = await _json(request)
        chat = chat_of(request)
        models = await chat.engine.models(chat.principal(caller))
        model = next((each.id for each in models if each.ready), "")
        outcome = await take_in(chat.conversations, owner_of(caller), value, model)
    skipped = [SkippedConversation(title=title, reason=reason) for title, reason in outcome.skipped]
    return shown(Imported(imported=outcome.imported, skipped=skipped))


async def _json(request: Request) -> Any:
    raw = await raw_body(request)
    return await strict_json.parse(raw, lambda value: value, MOST_CONTAINERS)


async def _whole(
    conversations: Conversations, owner: Owner, chosen: Sequence[Conversation] | None
) -> AsyncIterator[tuple[Conversation, Sequence[Message]]]:
    """The chosen ones, or all, each with its messages."""
    if chosen is not None:
        for conversation in chosen:
            yield conversation, await conversations.whole(owner, conversation)
        return
    for archived in (False, True):
        before = None
        while True:
            page = await conversations.page(owner, archived=archived, before=before, limit=PAGE)
            for row in page.rows:
                yield row.conversation, await conversations.whole(owner, row.conversation)
            if (before := page.next) is None:
                break
