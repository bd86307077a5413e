"""Route of `POST /v1/completions`: one job per prompt, answered together."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from gateway.answers.answer_parts import AnswerMetadata, AnswerOptions
from gateway.answers.collection import best, collect
from gateway.answers.completion_answer import CompletionAnswer
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import AuthorisedCompletion
from gateway.http.job_submission import submit
from gateway.http.json_response import json_response
from gateway.http.routes.idempotent import IdempotentRoute
from gateway.http.sse import EventStream
from gateway.jobs.job_builder import Origin, build_completion_jobs
from gateway.openai.completions import Completion, CompletionRequest

router = APIRouter(route_class=IdempotentRoute)


@router.post("/v1/completions", **document_route(Completion, body=CompletionRequest, streamed=Completion))
async def create_completion(request: Request, authorised: AuthorisedCompletion) -> Response:
    """Continue each prompt `n` times; choice `prompt * n + i` is the i-th continuation of that prompt.

    Answers `POST /v1/completions`.
    """
    caller, body, gateway = authorised
    admitted = await gateway.admission.admit(caller, body)
    jobs = build_completion_jobs(body, admitted, Origin.of(gateway.settings))
    answer = CompletionAnswer(AnswerMetadata.of(jobs[0], admitted), body.choices, AnswerOptions.of(body))
    async with submit(request, gateway, admitted, jobs, streamed=bool(body.stream)) as generation:
        if body.stream:
            await generation.wait_for_first_reply(gateway.settings.header_delay)
            return EventStream(gateway, generation, answer.events(generation))
        choices = best(await collect(generation), body.candidates, body.choices)
        return json_response(answer.body(choices, generation.prompts, generation.usage, generation.parts))
