"""Routes of Anthropic's `POST /v1/messages` and `/v1/messages/count_tokens`: chat completions in Anthropic's shapes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response, Security

from auth_billing.access.scopes import Scope
from gateway.answers.answer_parts import AnswerMetadata
from gateway.answers.collection import collect
from gateway.answers.event_frames import MESSAGE_STOP
from gateway.dialects.anthropic.answer import MessageAnswer, event
from gateway.dialects.anthropic.models import (
    AnthropicError,
    AnthropicErrorDetail,
    AnthropicEvent,
    AnthropicMessage,
    MessageTokens,
)
from gateway.dialects.anthropic.request import MessagesPrompt, MessagesRequest
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import AuthorisedRequest, BodySecurity
from gateway.http.dialect import Dialect
from gateway.http.http_errors import http_error
from gateway.http.job_submission import admit_chat, submit
from gateway.http.json_response import json_response
from gateway.http.routes.idempotent import IdempotentRoute
from gateway.http.sse import EventStream
from gateway.http.tokenisation import count_prompt_tokens

OVERLOADED = 529
"""Anthropic's status for an overloaded service."""

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    OVERLOADED: "overloaded_error",
}
"""Types of errors by status; others are an `invalid_request_error` or an `api_error`."""


def _status(error: Exception) -> int:
    row = http_error(error)
    if row.type == "insufficient_quota":
        return 402
    return OVERLOADED if row.code == "overloaded" else row.status


def _detail(error: Exception) -> AnthropicErrorDetail:
    status = _status(error)
    kind = _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return AnthropicErrorDetail(type=kind, message=http_error(error).message_of(error))


def _body(error: Exception) -> dict[str, Any]:
    return AnthropicError(error=_detail(error)).model_dump()


def _frame(error: Exception) -> str:
    return event("error", f',"error":{_detail(error).model_dump_json(ensure_ascii=True)}')


ANTHROPIC = Dialect(
    error_status=_status,
    error_body=_body,
    error_frame=_frame,
    done=MESSAGE_STOP,
    request_id_header="request-id",
)


class AnthropicRoute(IdempotentRoute):
    """A route of Anthropic's API, with its errors and streams."""

    dialect = ANTHROPIC


router = APIRouter(route_class=AnthropicRoute)
_AuthorisedMessages = Annotated[
    AuthorisedRequest[MessagesRequest], Security(BodySecurity(Scope.CHAT_COMPLETIONS, MessagesRequest))
]
_AuthorisedPrompt = Annotated[
    AuthorisedRequest[MessagesPrompt], Security(BodySecurity(Scope.CHAT_COMPLETIONS, MessagesPrompt))
]


@router.post(
    "/v1/messages",
    **document_route(
        AnthropicMessage,
        body=MessagesRequest,
        streamed=AnthropicEvent,
        done=", named by `type`",
        error=AnthropicError,
    ),
)
async def create_message(request: Request, authorised: _AuthorisedMessages) -> Response:
    """Generate the assistant's next message of a conversation; with `stream`, send it as Anthropic's events.

    Answers `POST /v1/messages`.
    """
    caller, body, gateway = authorised
    admitted, job = await admit_chat(request, gateway, caller, body.chat)
    includes_thinking = body.chat.include_reasoning is not False
    answer = MessageAnswer(AnswerMetadata.of(job, admitted), includes_thinking)
    async with submit(request, gateway, admitted, [job], streamed=bool(body.stream)) as generation:
        if body.stream:
            await generation.wait_for_first_reply(gateway.settings.header_delay)
            return EventStream(gateway, generation, answer.events(generation), ANTHROPIC)
        [choice] = await collect(generation)
        return json_response(answer.body(choice, generation.usage))


@router.post("/v1/messages/count_tokens", **document_route(MessageTokens, body=MessagesPrompt, error=AnthropicError))
async def count_message_tokens(request: Request, authorised: _AuthorisedPrompt) -> Response:
    """Return the number of tokens that a message's prompt has (`POST /v1/messages/count_tokens`)."""
    caller, body, gateway = authorised
    return json_response(MessageTokens(input_tokens=await count_prompt_tokens(request, gateway, caller, body.chat)))
