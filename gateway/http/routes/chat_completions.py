"""Route of `POST /v1/chat/completions`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from gateway.answers.answer import Head, Wishes
from gateway.answers.chat_answer import ChatAnswer
from gateway.answers.collect import best, collect
from gateway.http import rate_limits
from gateway.http.api_description import described
from gateway.http.dependencies import AskingChat
from gateway.http.disconnect import ended_with
from gateway.http.routes.idempotent import IdempotentRoute
from gateway.http.routes.responses import json_response, origin_of
from gateway.http.sse import EventStream
from gateway.jobs import dispatch
from gateway.openai.chat_completions import ChatCompletion, ChatCompletionChunk, ChatCompletionRequest
from runtime import tracing

router = APIRouter(route_class=IdempotentRoute)


@router.post(
    "/v1/chat/completions",
    **described(ChatCompletion, body=ChatCompletionRequest, streamed=ChatCompletionChunk),
)
async def create_chat_completion(request: Request, asking: AskingChat) -> Response:
    """Generate the assistant's next message of a conversation."""
    caller, body, gateway = asking
    reservation = await gateway.admission.admit(caller, body)
    job = dispatch.to_job(body, reservation, origin_of(request, gateway, stream=bool(body.stream)))
    answer = ChatAnswer(
        Head.of(job, reservation),
        body.choices,
        Wishes.of(body),
        body.echoed,
        may_call=body.may_call,
        named=body.names_a_tool,
    )
    bill = gateway.billing.open(reservation, [job], streamed=bool(body.stream))
    generation = gateway.generations.open([job], bill)  # before publish, so that no reply is missed
    async with ended_with(request.receive, generation):
        await rate_limits.charge(request, reservation, [job], generation.tokens_used)
        await generation.publish(tracing.inject())  # returns when confirmed; the generation is closed on an error
        if body.stream:
            await generation.begun(gateway.settings.header_delay)
            return EventStream(gateway, generation, answer.events(generation))
        choices = best(await collect(generation), body.candidates, body.choices)
        return json_response(answer.body(choices, generation.prompts[0], generation.usage))
