"""Routes of `/v1/organization/.../spend_limit`: monthly budgets of the organisation, a project or an API key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Response

from auth_billing.audit_log import Event
from auth_billing.errors import NoSuchRecord
from auth_billing.money.holds import ORGANISATION_BUDGET, key_budget, project_budget
from gateway.http.api_documentation import document_route
from gateway.http.json_response import json_response
from gateway.http.routes.organization.access import Administrator, Reader, Writer, admin_body
from gateway.openai.organization.keys import parse_key_id
from gateway.openai.organization.spend_limits import (
    NANO_PER_CENT,
    Enforcement,
    SpendLimit,
    SpendLimitDeleted,
    SpendLimitUpdate,
)

router = APIRouter(prefix="/v1/organization")

Update = Annotated[SpendLimitUpdate, Depends(admin_body(SpendLimitUpdate))]
PROJECT, KEY = "/projects/{project_id}/spend_limit", "/projects/{project_id}/api_keys/{api_key_id}/spend_limit"


@dataclass(frozen=True)
class _Subject:
    """The subject of a budget, which exists in the caller's organisation."""

    budget: str
    kind: Literal["organization", "project", "project.api_key"]
    id: str
    project: str = ""


@router.get("/spend_limit", **document_route(SpendLimit))
async def retrieve_organization_limit(admin: Reader) -> Response:
    """Return the organisation's monthly budget; answer 404 if none is set (`GET /v1/organization/spend_limit`)."""
    return await _retrieve(admin, _organisation(admin))


@router.post("/spend_limit", **document_route(SpendLimit, body=SpendLimitUpdate))
async def update_organization_limit(admin: Writer, body: Update) -> Response:
    """Set the organisation's monthly budget in cents; requests beyond it are refused.

    Answers `POST /v1/organization/spend_limit`.
    """
    return await _update(admin, _organisation(admin), body)


@router.delete("/spend_limit", **document_route(SpendLimitDeleted))
async def delete_organization_limit(admin: Writer) -> Response:
    """Remove the organisation's monthly budget, so that it limits no request.

    Answers `DELETE /v1/organization/spend_limit`.
    """
    return await _delete(admin, _organisation(admin))


@router.get(PROJECT, **document_route(SpendLimit))
async def retrieve_project_limit(project_id: str, admin: Reader) -> Response:
    """Return a project's monthly budget; answer 404 if none is set.

    Answers `GET /v1/organization/projects/{project_id}/spend_limit`.
    """
    return await _retrieve(admin, await _project(admin, project_id))


@router.post(PROJECT, **document_route(SpendLimit, body=SpendLimitUpdate))
async def update_project_limit(project_id: str, admin: Writer, body: Update) -> Response:
    """Set a project's monthly budget in cents; requests beyond it are refused.

    Answers `POST /v1/organization/projects/{project_id}/spend_limit`.
    """
    return await _update(admin, await _project(admin, project_id), body)


@router.delete(PROJECT, **document_route(SpendLimitDeleted))
async def delete_project_limit(project_id: str, admin: Writer) -> Response:
    """Remove a project's monthly budget, so that it limits no request.

    Answers `DELETE /v1/organization/projects/{project_id}/spend_limit`.
    """
    return await _delete(admin, await _project(admin, project_id))


@router.get(KEY, **document_route(SpendLimit))
async def retrieve_key_limit(project_id: str, api_key_id: str, admin: Reader) -> Response:
    """Return an API key's monthly budget; answer 404 if none is set (an extension).

    Answers `GET /v1/organization/projects/{project_id}/api_keys/{api_key_id}/spend_limit`.
    """
    return await _retrieve(admin, await _key(admin, project_id, api_key_id))


@router.post(KEY, **document_route(SpendLimit, body=SpendLimitUpdate))
async def update_key_limit(project_id: str, api_key_id: str, admin: Writer, body: Update) -> Response:
    """Set an API key's monthly budget in cents; requests beyond it are refused (an extension).

    Answers `POST /v1/organization/projects/{project_id}/api_keys/{api_key_id}/spend_limit`.
    """
    return await _update(admin, await _key(admin, project_id, api_key_id), body)


@router.delete(KEY, **document_route(SpendLimitDeleted))
async def delete_key_limit(project_id: str, api_key_id: str, admin: Writer) -> Response:
    """Remove an API key's monthly budget, so that it limits no request (an extension).

    Answers `DELETE /v1/organization/projects/{project_id}/api_keys/{api_key_id}/spend_limit`.
    """
    return await _delete(admin, await _key(admin, project_id, api_key_id))


def _organisation(admin: Administrator) -> _Subject:
    return _Subject(ORGANISATION_BUDGET, "organization", admin.organisation)


async def _project(admin: Administrator, project_id: str) -> _Subject:
    await admin.administration.projects.find(admin.organisation, project_id)
    return _Subject(project_budget(project_id), "project", project_id, project_id)


async def _key(admin: Administrator, project_id: str, shown: str) -> _Subject:
    record = await admin.administration.keys.find(admin.actor, project_id, parse_key_id(shown))
    return _Subject(key_budget(record.key_id), "project.api_key", shown, project_id)


async def _retrieve(admin: Administrator, subject: _Subject) -> Response:
    for use in await admin.administration.budgets.used(admin.organisation):
        if use.name == subject.budget and use.limit is not None:
            full = use.spent + use.held >= use.limit
            return _shown(subject, use.limit // NANO_PER_CENT, enforcing=full)
    raise NoSuchRecord(f"no budget of {subject.id}")


async def _update(admin: Administrator, subject: _Subject, body: SpendLimitUpdate) -> Response:
    await admin.administration.budgets.set(admin.organisation, subject.budget, body.nano_usd)
    await admin.record(
        Event.BUDGET_UPDATED,
        subject.id,
        project=subject.project,
        details={"threshold_amount": body.threshold_amount, "currency": body.currency, "interval": body.interval},
    )
    return await _retrieve(admin, subject)


async def _delete(admin: Administrator, subject: _Subject) -> Response:
    await admin.administration.budgets.set(admin.organisation, subject.budget, None)
    await admin.record(Event.BUDGET_DELETED, subject.id, project=subject.project)
    kind: Any = f"{subject.kind}.spend_limit.deleted"
    return json_response(SpendLimitDeleted(object=kind))


def _shown(subject: _Subject, cents: int, *, enforcing: bool) -> Response:
    kind: Any = f"{subject.kind}.spend_limit"
    return json_response(
        SpendLimit(
            object=kind,
            threshold_amount=cents,
            enforcement=Enforcement(status="enforcing" if enforcing else "inactive"),
        )
    )
