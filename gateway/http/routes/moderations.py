"""Route of `POST /v1/moderations`: a classifier scores all inputs in one job, or the operator's rules match them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from fastapi import APIRouter, Request, Response

from auth_billing.access.principal import Principal
from gateway.answers.collection import collect_scores
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import AuthorisedModeration
from gateway.http.gateway import Gateway
from gateway.http.job_submission import submit
from gateway.http.json_response import json_response
from gateway.http.routes.idempotent import IdempotentRoute
from gateway.jobs.job_builder import Origin, build_score_job
from gateway.moderation.categories import highest
from gateway.moderation.classifier import categories_of, score_prompt
from gateway.moderation.pieces import pieces
from gateway.moderation.rules import RULES_MODEL, ModerationRules
from gateway.openai.moderations import ModerationList, ModerationRequest, ModerationResult
from router.model_registry import ModelInfo

router = APIRouter(route_class=IdempotentRoute)


@router.post("/v1/moderations", **document_route(ModerationList, body=ModerationRequest))
async def create_moderation(request: Request, authorised: AuthorisedModeration) -> Response:
    """Return the categories of harmful content that each input belongs to, with scores (`POST /v1/moderations`)."""
    caller, body, gateway = authorised
    rules, groups = gateway.moderation.rules, body.groups
    model = gateway.moderation.requested(body.model, caller.models)
    if model is None:
        matched = iter(await rules.match([text for texts in groups for text in texts], "input"))
        scores = [highest(pair for _ in texts for pair in next(matched).items()) for texts in groups]
        id, name = f"modr-{uuid.uuid4().hex}", RULES_MODEL
    else:
        id, scores = await _classified(request, caller, gateway, model, groups)
        name = model.name
    results = [_result(each, rules) for each in scores]
    return json_response(ModerationList(id=id, model=name, results=results))


async def _classified(
    request: Request, caller: Principal, gateway: Gateway, model: ModelInfo, groups: Sequence[Sequence[str]]
) -> tuple[str, list[dict[str, float]]]:
    """Return the id of a score job, and the scores of each group of texts by category."""
    split = [[piece for text in texts for piece in pieces(text, model)] for texts in groups]
    prompt = score_prompt([piece for group in split for piece in group])
    admitted = await gateway.admission.admit_moderation(caller, model.name, prompt)
    job = build_score_job(prompt, None, admitted, Origin.of(gateway.settings), prefix="modr")
    async with submit(request, gateway, admitted, [job], streamed=False) as generation:
        scored = iter(await collect_scores(generation))
    of_groups = [[next(scored).steps or [] for _ in group] for group in split]
    return job.id, [categories_of(model.labels, each, gateway.moderation.rules) for each in of_groups]


def _result(found: Mapping[str, float], rules: ModerationRules) -> ModerationResult:
    scores = {**dict.fromkeys(rules.categories, 0.0), **found}
    flagged = rules.flagged(scores)
    return ModerationResult(
        flagged=bool(flagged),
        categories={each: each in flagged for each in scores},
        category_scores=scores,
        category_applied_input_types={each: ["text"] for each in scores},
    )
