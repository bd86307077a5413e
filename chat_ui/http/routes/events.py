"""HTTP route of an answer's server-sent events: `GET /api/conversations/{id}/messages/{answer}/events`.

Any process that serves the chat can stream it, also one that does not generate the answer.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from sse_starlette import EventSourceResponse, ServerSentEvent

from auth_billing.errors import InvalidSession, StoreUnavailable
from chat_ui.generations.answer_events import StreamEvent
from chat_ui.history.records import Message, QueueStatus
from chat_ui.history.steps import Step
from chat_ui.http import cookies, serialisation
from chat_ui.http.access_control import Caller
from chat_ui.http.responses import NO_STORE
from chat_ui.http.schemas.base import QueryParameters, Schema
from chat_ui.http.schemas.conversations import (
    ChatEvents,
    MessageEvent,
    RestartEvent,
    StepEvent,
    TextEvent,
    TitleEvent,
    WaitingEvent,
)
from chat_ui.services import owner_of, services_of
from stored_objects.images.results import BlobAddress

router = APIRouter()

PING_INTERVAL = 10
"""Seconds between two comments that keep an idle stream open."""
SEND_TIMEOUT = 30.0
"""Seconds for which a browser may not read before the stream is closed."""
SESSION_CHECK_INTERVAL = 60.0
"""Seconds between two checks whether the reader is still signed in."""

_log = structlog.get_logger(__name__)


class EventsQuery(QueryParameters):
    """Query parameters of an event stream."""

    after: Annotated[str, Field(max_length=64)] = ""
    """The id of the last event that the client has; the header `Last-Event-ID` has precedence."""


@router.get(
    "/conversations/{conversation_id}/messages/{message_id}/events",
    response_class=EventSourceResponse,
    responses={200: {"description": "Server-sent events; `ChatEvents` describes their data", "model": ChatEvents}},
)
async def events(
    request: Request,
    conversation_id: str,
    message_id: str,
    caller: Caller,
    query: Annotated[EventsQuery, Query()],
) -> Response:
    """Stream an answer's events as server-sent events until its end, then its conversation's new title, if any.

    Route: `GET /api/conversations/{conversation_id}/messages/{message_id}/events`. The events are `ChatEvents`.
    """
    conversations, owner = services_of(request).conversations, owner_of(caller)
    message = await conversations.message(owner, conversation_id, message_id)
    after = request.headers.get("last-event-id", "")[:64] or query.after
    stream = conversations.answer_events(owner, conversation_id, message_id).stream(message, after)
    return EventSourceResponse(
        _sse(request, stream),
        headers=NO_STORE,
        sep="\n",
        ping=PING_INTERVAL,
        ping_message_factory=lambda: ServerSentEvent(comment="ping", sep="\n"),
        send_timeout=SEND_TIMEOUT,
    )


async def _sse(request: Request, stream: AsyncIterator[StreamEvent | None]) -> AsyncIterator[dict[str, Any]]:
    """Yield events for sse-starlette. The stream ends, and the client reconnects, if its session or the store fails."""
    checked = time.monotonic()
    try:
        async for event in stream:
            if event is not None:
                yield {
                    "event": event.name,
                    "data": _shape(event, services_of(request).blob_address).model_dump_json(),
                    "id": event.id or None,
                }
            if time.monotonic() - checked >= SESSION_CHECK_INTERVAL:
                checked = time.monotonic()
                await services_of(request).access.sessions.authenticate(cookies.read(request, cookies.ACCESS))
    except InvalidSession:
        return
    except StoreUnavailable as error:
        _log.warning("an event stream ends: the store does not answer", reason=str(error))


def _shape(event: StreamEvent, address: BlobAddress) -> Schema:
    match event.data:
        case QueueStatus():
            return WaitingEvent.model_validate(event.data)
        case Step():
            return StepEvent(step=serialisation.step(event.data, address))
        case Message():
            return MessageEvent(message=serialisation.message(event.data, address))
        case (at, text):
            return TextEvent(at=at, text=text)
        case str():
            return TitleEvent(title=event.data)
        case _:
            return RestartEvent()
