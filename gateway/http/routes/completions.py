"""Route of `POST /v1/completions`: one job per prompt, answered together."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from gateway.answers.answer import Head, Wishes
from gateway.answers.collect import best, collect
from gateway.answers.completion_answer import CompletionAnswer
from gateway.http import rate_limits
from gateway.http.api_description import described
from gateway.http.dependencies import AskingCompletion
from gateway.http.disconnect import ended_with
from gateway.http.routes.idempotent import IdempotentRoute
from gateway.http.routes.responses import json_response, origin_of
from gateway.http.sse import EventStream
from gateway.jobs import dispatch
from gateway.openai.completions import Completion, CompletionRequest
from runtime import tracing

router = APIRouter(route_class=IdempotentRoute)


@router.post("/v1/completions", **described(Completion, body=CompletionRequest, streamed=Completion))
async def create_completion(request: Request, asking: AskingCompletion) -> Response:
    """Continue each prompt `n` times; choice `prompt * n + i` is the i-th continuation of that prompt."""
    caller, body, gateway = asking
    reservation = await gateway.admission.admit(caller, body)
    jobs = dispatch.to_jobs(body, reservation, origin_of(request, gateway, stream=bool(body.stream)))
    answer = CompletionAnswer(Head.of(jobs[0], reservation), body.choices, Wishes.of(body))
    bill = gateway.billing.open(reservation, jobs, streamed=bool(body.stream))
    generation = gateway.generations.open(jobs, bill)
    async with ended_with(request.receive, generation):
        await rate_limits.charge(request, reservation, jobs, generation.tokens_used)
        await generation.publish(tracing.inject())
        if body.stream:
            await generation.begun(gateway.settings.header_delay)
            return EventStream(gateway, generation, answer.events(generation))
        choices = best(await collect(generation), body.candidates, body.choices)
        return json_response(answer.body(choices, generation.prompts, generation.usage))
