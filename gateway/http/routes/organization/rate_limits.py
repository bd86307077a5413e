"""Routes of `/v1/organization/projects/{project_id}/rate_limits`: limits of a project in total and per served model."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from auth_billing.audit_log import Event
from auth_billing.errors import NoSuchRecord
from auth_billing.rate_limits.limits import UNLIMITED, Limits, Subject, model_subject, project_subject
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import CurrentGateway
from gateway.http.json_response import json_response
from gateway.http.routes.organization.access import Reader, Writer, admin_body
from gateway.http.routes.organization.pagination import page_of, query_of
from gateway.openai.organization.rate_limits import (
    ANY_MODEL,
    RateLimit,
    RateLimitList,
    RateLimitQuery,
    RateLimitUpdate,
)

router = APIRouter(prefix="/v1/organization/projects/{project_id}/rate_limits")

PREFIX = "rl-"


@router.get("", **document_route(RateLimitList, query=RateLimitQuery))
async def list_rate_limits(
    project_id: str,
    admin: Reader,
    query: Annotated[RateLimitQuery, Depends(query_of(RateLimitQuery))],
    gateway: CurrentGateway,
) -> Response:
    """List the project's rate limits: the total first, then those of models, sorted by name."""
    await admin.administration.projects.find(admin.organisation, project_id)
    models = [ANY_MODEL, *sorted(model.name for model in gateway.models.models())]
    limits = await gateway.limits.book.limits_of([_subject(project_id, model) for model in models])
    shown = [_shown(model, each) for model, each in zip(models, limits, strict=True)]
    return json_response(page_of(RateLimitList, shown, query))


@router.post("/{rate_limit_id:path}", **document_route(RateLimit, body=RateLimitUpdate))
async def modify_rate_limit(
    project_id: str,
    rate_limit_id: str,
    admin: Writer,
    body: Annotated[RateLimitUpdate, Depends(admin_body(RateLimitUpdate))],
    gateway: CurrentGateway,
) -> Response:
    """Change a rate limit, up to the operator's, at once in this gateway and within ten seconds in the others."""
    await admin.administration.projects.find_active(admin.organisation, project_id)
    model = rate_limit_id.removeprefix(PREFIX)
    if rate_limit_id == model or (model != ANY_MODEL and gateway.models.find(model) is None):
        raise NoSuchRecord(f"no rate limit {rate_limit_id}")
    changes = Limits(
        requests_per_minute=body.max_requests_per_1_minute,
        tokens_per_minute=body.max_tokens_per_1_minute,
        requests_per_day=body.max_requests_per_1_day,
        concurrent_requests=body.max_concurrent_requests,
    )
    limits = await gateway.limits.book.change(_subject(project_id, model), changes)
    details = {name: limit for name, limit in body.model_dump().items() if limit is not None}
    await admin.record(Event.RATE_LIMIT_UPDATED, rate_limit_id, project=project_id, details=details)
    return json_response(_shown(model, limits))


def _subject(project: str, model: str) -> Subject:
    return project_subject(project) if model == ANY_MODEL else model_subject(project, model)


def _shown(model: str, limits: Limits) -> RateLimit:
    return RateLimit(
        id=PREFIX + model,
        model=model,
        max_requests_per_1_minute=limits.requests_per_minute or UNLIMITED,
        max_tokens_per_1_minute=limits.tokens_per_minute or UNLIMITED,
        max_requests_per_1_day=limits.requests_per_day or UNLIMITED,
        max_concurrent_requests=limits.concurrent_requests or UNLIMITED,
    )
