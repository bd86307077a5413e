"""Routes of `/v1/organization/.../rate_limit(s)`: rate limits of a project, the organisation, an API key or a user.

Those of the organisation, of an API key and of a user are extensions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from auth_billing.audit_log import Event
from auth_billing.errors import NoSuchRecord
from auth_billing.rate_limits.limits import (
    UNLIMITED,
    Limits,
    Subject,
    key_subject,
    model_subject,
    organisation_model_subject,
    organisation_subject,
    person_subject,
    project_subject,
)
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import CurrentGateway
from gateway.http.gateway import Gateway
from gateway.http.json_response import json_response
from gateway.http.pagination import page_of, query_of
from gateway.http.routes.organization.access import Administrator, Reader, Writer, admin_body
from gateway.openai.organization.keys import parse_key_id
from gateway.openai.organization.rate_limits import (
    ANY_MODEL,
    RateLimit,
    RateLimitList,
    RateLimitQuery,
    RateLimitUpdate,
)

router = APIRouter(prefix="/v1/organization")

PREFIX = "rl-"
PROJECT, ORGANISATION = "/projects/{project_id}/rate_limits", "/rate_limits"
KEY, USER = "/projects/{project_id}/api_keys/{api_key_id}/rate_limit", "/users/{user_id}/rate_limit"

Query = Annotated[RateLimitQuery, Depends(query_of(RateLimitQuery))]
Update = Annotated[RateLimitUpdate, Depends(admin_body(RateLimitUpdate))]


@dataclass(frozen=True)
class _Target:
    """A subject of rate limits that exists in the caller's organisation, and how the API shows it."""

    subject: Subject
    object: str
    id: str
    model: str | None = None
    project: str = ""


@router.get(PROJECT, **document_route(RateLimitList, query=RateLimitQuery))
async def list_rate_limits(project_id: str, admin: Reader, query: Query, gateway: CurrentGateway) -> Response:
    """List a project's rate limits: the total first, then those of models, sorted by name.

    Answers `GET /v1/organization/projects/{project_id}/rate_limits`.
    """
    await admin.administration.projects.find(admin.organisation, project_id)
    return await _list(gateway, query, lambda model: _of_project(project_id, model))


@router.post(PROJECT + "/{rate_limit_id:path}", **document_route(RateLimit, body=RateLimitUpdate))
async def modify_rate_limit(
    project_id: str, rate_limit_id: str, admin: Writer, body: Update, gateway: CurrentGateway
) -> Response:
    """Change a rate limit of a project, up to the operator's, in all gateways within five seconds.

    Answers `POST /v1/organization/projects/{project_id}/rate_limits/{rate_limit_id}`.
    """
    await admin.administration.projects.find_active(admin.organisation, project_id)
    return await _modify(admin, gateway, _of_project(project_id, _model(gateway, rate_limit_id)), body)


@router.get(ORGANISATION, **document_route(RateLimitList, query=RateLimitQuery))
async def list_organization_rate_limits(admin: Reader, query: Query, gateway: CurrentGateway) -> Response:
    """List the organisation's rate limits over all projects: the total first, then those of models, by name.

    Answers `GET /v1/organization/rate_limits`.
    """
    return await _list(gateway, query, lambda model: _of_organisation(admin.organisation, model))


@router.post(ORGANISATION + "/{rate_limit_id:path}", **document_route(RateLimit, body=RateLimitUpdate))
async def modify_organization_rate_limit(
    rate_limit_id: str, admin: Writer, body: Update, gateway: CurrentGateway
) -> Response:
    """Change a rate limit of the organisation, up to the operator's, in all gateways within five seconds.

    Answers `POST /v1/organization/rate_limits/{rate_limit_id}`.
    """
    target = _of_organisation(admin.organisation, _model(gateway, rate_limit_id))
    return await _modify(admin, gateway, target, body)


@router.get(KEY, **document_route(RateLimit))
async def retrieve_api_key_rate_limit(
    project_id: str, api_key_id: str, admin: Reader, gateway: CurrentGateway
) -> Response:
    """Return the rate limits of one API key.

    Answers `GET /v1/organization/projects/{project_id}/api_keys/{api_key_id}/rate_limit`.
    """
    return await _retrieve(gateway, await _key(admin, project_id, api_key_id))


@router.post(KEY, **document_route(RateLimit, body=RateLimitUpdate))
async def modify_api_key_rate_limit(
    project_id: str, api_key_id: str, admin: Writer, body: Update, gateway: CurrentGateway
) -> Response:
    """Change the rate limits of one API key, up to the operator's, in all gateways within five seconds.

    Answers `POST /v1/organization/projects/{project_id}/api_keys/{api_key_id}/rate_limit`.
    """
    return await _modify(admin, gateway, await _key(admin, project_id, api_key_id), body)


@router.get(USER, **document_route(RateLimit))
async def retrieve_user_rate_limit(user_id: str, admin: Reader, gateway: CurrentGateway) -> Response:
    """Return the rate limits of a user's API keys and chats together.

    Answers `GET /v1/organization/users/{user_id}/rate_limit`.
    """
    await admin.administration.members.find(admin.organisation, user_id)
    return await _retrieve(gateway, _of_user(admin.organisation, user_id))


@router.post(USER, **document_route(RateLimit, body=RateLimitUpdate))
async def modify_user_rate_limit(user_id: str, admin: Writer, body: Update, gateway: CurrentGateway) -> Response:
    """Change the rate limits of a user's API keys and chats together, up to the operator's.

    Answers `POST /v1/organization/users/{user_id}/rate_limit`. Only owners may change those of owners and
    administrators.
    """
    member = await admin.administration.members.find(admin.organisation, user_id)
    admin.actor.require_limits_of(member.role)
    return await _modify(admin, gateway, _of_user(admin.organisation, user_id), body)


def _model(gateway: Gateway, rate_limit_id: str) -> str:
    """Return the model of a rate limit's id, or `ANY_MODEL`.

    Raises:
        NoSuchRecord: no such model is served.
    """
    model = rate_limit_id.removeprefix(PREFIX)
    if rate_limit_id == model or (model != ANY_MODEL and gateway.models.find(model) is None):
        raise NoSuchRecord(f"no rate limit {rate_limit_id}")
    return model


def _of_project(project: str, model: str) -> _Target:
    subject = project_subject(project) if model == ANY_MODEL else model_subject(project, model)
    return _Target(subject, "project.rate_limit", PREFIX + model, model, project)


def _of_organisation(organisation: str, model: str) -> _Target:
    total = model == ANY_MODEL
    subject = organisation_subject(organisation) if total else organisation_model_subject(organisation, model)
    return _Target(subject, "organization.rate_limit", PREFIX + model, model)


def _of_user(organisation: str, user: str) -> _Target:
    return _Target(person_subject(organisation, user), "organization.user.rate_limit", user)


async def _key(admin: Administrator, project_id: str, shown: str) -> _Target:
    record = await admin.administration.keys.find(admin.actor, project_id, parse_key_id(shown))
    return _Target(key_subject(record.key_id, ""), "project.api_key.rate_limit", shown, project=project_id)


async def _list(gateway: Gateway, query: RateLimitQuery, target_of: Callable[[str], _Target]) -> Response:
    targets = [target_of(model) for model in (ANY_MODEL, *sorted(model.name for model in gateway.models.models()))]
    limits = await gateway.limits.book.limits_of([target.subject for target in targets])
    shown = [_shown(target, each) for target, each in zip(targets, limits, strict=True)]
    return json_response(page_of(RateLimitList, shown, query))


async def _retrieve(gateway: Gateway, target: _Target) -> Response:
    (limits,) = await gateway.limits.book.limits_of([target.subject])
    return json_response(_shown(target, limits))


async def _modify(admin: Administrator, gateway: Gateway, target: _Target, body: RateLimitUpdate) -> Response:
    changes = Limits(
        requests_per_minute=body.max_requests_per_1_minute,
        tokens_per_minute=body.max_tokens_per_1_minute,
        requests_per_day=body.max_requests_per_1_day,
        concurrent_requests=body.max_concurrent_requests,
    )
    limits = await gateway.limits.book.change(target.subject, changes)
    details = {name: limit for name, limit in body.model_dump().items() if limit is not None}
    await admin.record(Event.RATE_LIMIT_UPDATED, target.id, project=target.project, details=details)
    return json_response(_shown(target, limits))


def _shown(target: _Target, limits: Limits) -> RateLimit:
    kind: Any = target.object
    return RateLimit(
        object=kind,
        id=target.id,
        model=target.model,
        max_requests_per_1_minute=limits.requests_per_minute or UNLIMITED,
        max_tokens_per_1_minute=limits.tokens_per_minute or UNLIMITED,
        max_requests_per_1_day=limits.requests_per_day or UNLIMITED,
        max_concurrent_requests=limits.concurrent_requests or UNLIMITED,
    )
