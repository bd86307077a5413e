"""Routes of `/v1/organization/projects/{project_id}/moderation`: the checks of a project's prompts and answers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from auth_billing.audit_log import Event
from auth_billing.people.moderation_policies import ModerationPolicy
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import CurrentGateway
from gateway.http.json_response import json_response
from gateway.http.routes.organization.access import Reader, Writer, admin_body
from gateway.openai.organization.moderation import (
    ProjectModeration,
    ProjectModerationDeleted,
    ProjectModerationUpdate,
)

router = APIRouter(prefix="/v1/organization")

Update = Annotated[ProjectModerationUpdate, Depends(admin_body(ProjectModerationUpdate))]

PATH = "/projects/{project_id}/moderation"


@router.get(PATH, **document_route(ProjectModeration))
async def retrieve_project_moderation(project_id: str, admin: Reader) -> Response:
    """Return what is checked of a project's prompts and answers (an extension).

    Answers `GET /v1/organization/projects/{project_id}/moderation`.
    """
    policy = await admin.administration.moderation_policies.find(admin.organisation, project_id)
    return json_response(ProjectModeration.of(policy))


@router.post(PATH, **document_route(ProjectModeration, body=ProjectModerationUpdate))
async def modify_project_moderation(project_id: str, admin: Writer, body: Update, gateway: CurrentGateway) -> Response:
    """Set what is checked of a project's prompts and answers, and which categories block, within five seconds.

    Answers `POST /v1/organization/projects/{project_id}/moderation` (an extension).
    """
    policies = admin.administration.moderation_policies
    await policies.find(admin.organisation, project_id)  # an unknown project is refused before an unknown model
    gateway.moderation.find(body.model)
    categories = None if body.categories is None else frozenset(body.categories)
    policy = ModerationPolicy(body.model, categories, prompts=body.prompts, answers=body.answers)
    await policies.set(admin.actor, project_id, policy)
    shown = ProjectModeration.of(policy)
    details = {"model": shown.model, "categories": shown.categories, "prompts": shown.prompts, "answers": shown.answers}
    await admin.record(Event.MODERATION_UPDATED, project_id, project=project_id, details=details)
    return json_response(shown)


@router.delete(PATH, **document_route(ProjectModerationDeleted))
async def delete_project_moderation(project_id: str, admin: Writer) -> Response:
    """End the checks of a project's prompts and answers (an extension).

    Answers `DELETE /v1/organization/projects/{project_id}/moderation`.
    """
    await admin.administration.moderation_policies.set(admin.actor, project_id, None)
    await admin.record(Event.MODERATION_DELETED, project_id, project=project_id)
    return json_response(ProjectModerationDeleted())
