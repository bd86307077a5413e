"""Route of `POST /v1/chat/completions`: one job per conversation, answered whole or as a stream."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from gateway.answers.answer_parts import AnswerMetadata, AnswerOptions
from gateway.answers.chat_answer import ChatAnswer
from gateway.answers.collection import best, collect
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import AuthorisedChat
from gateway.http.job_submission import admit_chat, submit
from gateway.http.json_response import json_response
from gateway.http.routes.blobs import address_of
from gateway.http.routes.idempotent import IdempotentRoute
from gateway.http.sse import EventStream
from gateway.openai.chat_completion_answers import ChatCompletion, ChatCompletionChunk
from gateway.openai.chat_completions import ChatCompletionRequest
from stored_objects.project_documents.records import ProjectOwner

router = APIRouter(route_class=IdempotentRoute)


@router.post(
    "/v1/chat/completions",
    **document_route(ChatCompletion, body=ChatCompletionRequest, streamed=ChatCompletionChunk),
)
async def create_chat_completion(request: Request, authorised: AuthorisedChat) -> Response:
    """Generate the assistant's next message of a conversation; with `stream`, send it as Server-Sent Events.

    Answers `POST /v1/chat/completions`.
    """
    caller, body, gateway = authorised
    admitted, job = await admit_chat(request, gateway, caller, body)
    async with submit(request, gateway, admitted, [job], streamed=bool(body.stream)) as generation:
        # All that does not need the worker's reply is done while it is awaited.
        answer = ChatAnswer(
            AnswerMetadata.of(job, admitted),
            body.choices,
            AnswerOptions.of(body),
            partial(address_of, request),
            body.echoed_text,
            allows_tool_calls=body.allows_tool_calls,
            forces_named_tool=body.forces_named_tool,
            has_functions=bool(body.functions),
            includes_reasoning=body.include_reasoning is not False,
        )
        store = partial(gateway.completion_storage.put, ProjectOwner.of(caller), body) if body.store else None
        if body.stream:
            stream = EventStream(gateway, generation, answer.events(generation, store))
            await generation.wait_for_first_reply(gateway.settings.header_delay)
            return stream
        choices = best(await collect(generation), body.candidates, body.choices)
        completion = answer.body(choices, generation.prompts[0], generation.usage, generation.parts)
        if store is not None:
            await store(completion)
        return json_response(completion)
