"""Route of an answer's server-sent events: `/api/conversations/{id}/messages/{answer}/events`, on any gateway."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from sse_starlette import EventSourceResponse, ServerSentEvent

from auth_billing.errors import InvalidSession, StoreUnavailable
from chat_ui.chat import chat_of, owner_of
from chat_ui.generations.following import Event
from chat_ui.history.records import Message, Waiting
from chat_ui.http import cookies, rendering
from chat_ui.http.answers import NEVER_KEPT
from chat_ui.http.guard import Caller
from chat_ui.http.shapes.base import Shape
from chat_ui.http.shapes.conversations import (
    ChatEvents,
    MessageEvent,
    RestartEvent,
    TextEvent,
    TitleEvent,
    WaitingEvent,
)

router = APIRouter()

PING_SECONDS = 10
SEND_SECONDS = 30.0
"""For how long a browser may not read before the stream is closed."""
SESSION_SECONDS = 60.0
"""Interval of checking whether the reader is still signed in."""

_log = structlog.get_logger(__name__)


class EventsQuery(BaseModel):
    """Query parameters of an event stream."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

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
    """Stream the answer's events until its end, then its conversation's new title, if any: see `ChatEvents`."""
    conversations, owner = chat_of(request).conversations, owner_of(caller)
    message = await conversations.message(owner, conversation_id, message_id)
    after = request.headers.get("last-event-id", "")[:64] or query.after
    following = conversations.follower(owner, conversation_id, message_id).events(message, after)
    return EventSourceResponse(
        _sent(request, following),
        headers=NEVER_KEPT,
        sep="\n",
        ping=PING_SECONDS,
        ping_message_factory=lambda: ServerSentEvent(comment="ping", sep="\n"),
        send_timeout=SEND_SECONDS,
    )


async def _sent(request: Request, following: AsyncIterator[Event | None]) -> AsyncIterator[dict[str, Any]]:
    """Yield events for sse-starlette. The stream ends, and the client reconnects, if its session or the store fails."""
    checked = time.monotonic()
    try:
        async for event in following:
            if event is not None:
                yield {"event": event.name, "data": _shape(event).model_dump_json(), "id": event.id or None}
            if time.monotonic() - checked >= SESSION_SECONDS:
                checked = time.monotonic()
                await chat_of(request).access.sessions.of(cookies.read(request, cookies.ACCESS))
    except InvalidSession:
        return
    except StoreUnavailable as error:
        _log.warning("an event stream ends: the store does not answer", reason=str(error))


def _shape(event: Event) -> Shape:
    match event.data:
        case Waiting():
            return WaitingEvent(position=event.data.position, seconds=event.data.seconds)
        case Message():
            return MessageEvent(message=rendering.message(event.data))
        case (at, text):
            return TextEvent(at=at, text=text)
        case str():
            return TitleEvent(title=event.data)
        case _:
            return RestartEvent()
