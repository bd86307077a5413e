"""HTTP routes of the checks of projects' prompts and answers: `/api/admin/moderation`."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from auth_billing.audit_log import Event
from auth_billing.people.moderation_policies import ModerationPolicy
from auth_billing.people.organisation_records import Project
from auth_billing.people.sessions import BrowserSession
from chat_ui.errors import InvalidField
from chat_ui.http.access_control import Admin
from chat_ui.http.responses import schema_response
from chat_ui.http.schemas.moderation import ModerationBody, ModerationJson, ModerationSettings, ProjectModeration
from chat_ui.services import record_event, services_of

router = APIRouter(prefix="/moderation")


@router.get("", response_model=ModerationSettings)
async def list_moderation(request: Request, caller: Admin) -> Response:
    """List the checks of projects in use, and the models and categories to choose from.

    Route: `GET /api/admin/moderation`.
    """
    return schema_response(await _settings(request, caller))


@router.post("", response_model=ModerationSettings)
async def set_moderation(request: Request, caller: Admin, body: ModerationJson) -> Response:
    """Set or end the checks of a project's prompts and answers, within five seconds (`POST /api/admin/moderation`)."""
    policies = services_of(request).admin.administration.moderation_policies
    earlier = await policies.find(caller.organisation, body.project)
    policy = _policy(request, body, earlier)
    await policies.set(caller.actor, body.project, policy)
    settings = await _settings(request, caller)
    event = Event.MODERATION_DELETED if policy is None else Event.MODERATION_UPDATED
    row = next((each for each in settings.projects if each.project == body.project and policy is not None), None)
    details = {} if row is None else row.model_dump(exclude={"project", "name"})
    await record_event(request, caller, event, body.project, project=body.project, details=details)
    return schema_response(settings)


def _policy(request: Request, body: ModerationBody, earlier: ModerationPolicy | None) -> ModerationPolicy | None:
    """Return the policy that `body` sets; `None`: nothing is checked.

    Raises:
        InvalidField: its model is not served now, and is not that of the `earlier` policy.
    """
    if body.model is None:
        return None
    known = {*services_of(request).admin.fleet.moderation_models(), "" if earlier is None else earlier.model}
    if body.model not in known:
        raise InvalidField("model", "No moderation model with this name is served.")
    categories = None if body.categories is None else frozenset(body.categories)
    return ModerationPolicy(body.model, categories, prompts=body.prompts, answers=body.answers)


async def _settings(request: Request, caller: BrowserSession) -> ModerationSettings:
    admin = services_of(request).admin
    projects = await admin.administration.projects.all(caller.organisation)
    policies = admin.administration.moderation_policies
    found = await asyncio.gather(*(policies.find(caller.organisation, each.id) for each in projects))
    return ModerationSettings(
        projects=[_row(project, policy) for project, policy in zip(projects, found, strict=True)],
        models=list(admin.fleet.moderation_models()),
        categories=list(admin.fleet.moderation_categories()),
    )


def _row(project: Project, policy: ModerationPolicy | None) -> ProjectModeration:
    named = {"project": project.id, "name": project.name}
    if policy is None:
        return ProjectModeration(**named, model=None, categories=None, prompts=False, answers=False)
    categories = None if policy.categories is None else sorted(policy.categories)
    return ProjectModeration(
        **named, model=policy.model, categories=categories, prompts=policy.prompts, answers=policy.answers
    )
