"""Route of `POST /v1/responses`: one job per response, answered whole or as a stream of events."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from gateway.answers.event_frames import compact
from gateway.answers.responses.answer import response_frames, whole_response
from gateway.answers.responses.events import ResponseEvents
from gateway.answers.responses.output import ResponseOutput
from gateway.answers.responses.response_object import ResponseObject
from gateway.errors import InvalidRequest
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import AuthorisedResponse
from gateway.http.http_errors import error_body, http_error
from gateway.http.job_submission import submit
from gateway.http.routes.blobs import address_of
from gateway.http.routes.idempotent import IdempotentRoute
from gateway.http.sse import EventStream
from gateway.jobs.job_builder import Origin, build_chat_job
from gateway.jobs.prompt_images import PromptImages
from gateway.openai.responses.request import ResponseRequest
from gateway.openai.responses.response import ModelResponse, ResponseStreamEvent
from gateway.openai.responses.tools import custom_names
from gateway.openai.responses.translation import input_items, param_of, renamed, to_chat
from router.messages import Job
from router.producer.errors import JobFailed

router = APIRouter(route_class=IdempotentRoute)

_ERROR_CODES = {400: "invalid_prompt", 429: "rate_limit_exceeded"}
"""Codes of a response's error by HTTP status; OpenAI's specification has a fixed list of them."""


@router.post(
    "/v1/responses",
    **document_route(ModelResponse, body=ResponseRequest, streamed=ResponseStreamEvent),
)
async def create_response(request: Request, authorised: AuthorisedResponse) -> Response:
    """Generate a response to input items; with `stream`, send its events as Server-Sent Events.

    Answers `POST /v1/responses`.
    """
    caller, body, gateway = authorised
    with _fields_of_response():
        items = input_items(body)
        chat = to_chat(body, items)
        gateway.admission.check_images(caller, chat)
        images = await PromptImages(gateway.objects, gateway.addresses, str(request.base_url)).read(caller, chat)
        admitted = await gateway.admission.admit(caller, chat)
        response_id = f"resp_{uuid.uuid4().hex}"
        job = _named(build_chat_job(chat, admitted, Origin.of(gateway.settings), images), response_id)
        response = ResponseObject.of(response_id, body, model=admitted.model.name, service_class=admitted.service_class)
        output = ResponseOutput(
            response_id,
            partial(address_of, request),
            first_item=len(items),
            custom_tools=custom_names(body.offered_tools),
            summarises=body.summarises,
        )
        events = ResponseEvents(response, output)
        async with submit(request, gateway, admitted, [job], streamed=bool(body.stream)) as generation:
            if body.stream:
                await generation.wait_for_first_reply(gateway.settings.header_delay)
                return EventStream(gateway, generation, response_frames(generation, events, response_error))
            return _json(await whole_response(generation, events))


def response_error(error: Exception) -> dict[str, Any]:
    """Return `code` and `message` of a response's error for the exception that ended it."""
    code = _ERROR_CODES.get(http_error(error).status, "server_error")
    return {"code": code, "message": error_body(error)["error"]["message"]}


def _json(response: dict[str, Any]) -> Response:
    return Response(compact(response), media_type="application/json")


def _named(job: Job, job_id: str) -> Job:
    """Return the job with the id of its response, and with a grammar from the response's field."""
    grammar = job.grammar and msgspec.structs.replace(job.grammar, param="text.format")
    return msgspec.structs.replace(job, id=job_id, grammar=grammar)


@contextmanager
def _fields_of_response() -> Iterator[None]:
    """Return a context in which errors about fields of the chat completion name those of the response."""
    try:
        yield
    except InvalidRequest as error:
        raise renamed(error) from error
    except JobFailed as error:
        error.param = param_of(error.param)
        raise
