"""Routes of `POST /v1/score` and `/v1/rerank`: a reward model or cross-encoder scores all candidates in one job."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request, Response

from auth_billing.access.principal import Principal
from gateway.answers.collection import collect_scores
from gateway.answers.score_answer import CandidateScore, ranking, score_list
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import AuthorisedRerank, AuthorisedScores
from gateway.http.gateway import Gateway
from gateway.http.job_submission import submit
from gateway.http.json_response import json_response
from gateway.http.routes.idempotent import IdempotentRoute
from gateway.jobs.job_builder import Origin, build_score_job
from gateway.openai.scores import Ranking, RerankRequest, ScoreList, ScoreRequest, ScoringRequest
from router.messages import Job, Usage

router = APIRouter(route_class=IdempotentRoute)


@router.post("/v1/score", **document_route(ScoreList, body=ScoreRequest))
async def create_scores(request: Request, authorised: AuthorisedScores) -> Response:
    """Return the score of each pair of texts, or of each answer to a conversation and of its steps.

    Answers `POST /v1/score`.
    """
    caller, body, gateway = authorised
    job, scores, usage = await _scores(request, caller, body, gateway)
    return json_response(score_list(scores, id=job.id, created=int(time.time()), model=job.model, usage=usage))


@router.post("/v1/rerank", **document_route(Ranking, body=RerankRequest))
async def create_ranking(request: Request, authorised: AuthorisedRerank) -> Response:
    """Return the documents that are most relevant to a query, in order of their scores (`POST /v1/rerank`)."""
    caller, body, gateway = authorised
    job, scores, usage = await _scores(request, caller, body, gateway)
    return json_response(ranking(scores, body, id=job.id, model=job.model, usage=usage))


async def _scores(
    request: Request, caller: Principal, body: ScoringRequest, gateway: Gateway
) -> tuple[Job, list[CandidateScore], Usage]:
    prompt = body.prompt
    admitted = await gateway.admission.admit_scores(caller, body.model, prompt, body.truncate_prompt_tokens)
    job = build_score_job(prompt, body.truncate_prompt_tokens, admitted, Origin.of(gateway.settings))
    async with submit(request, gateway, admitted, [job], streamed=False) as generation:
        scores = await collect_scores(generation)
    return job, scores, generation.usage
