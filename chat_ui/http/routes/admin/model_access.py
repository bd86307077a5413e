"""HTTP routes of model policies, which models projects, roles and members may use: `/api/admin/model-access`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from auth_billing.access import model_access
from auth_billing.access.model_access import PolicyMode
from auth_billing.people.model_policies import PolicySubject, audit_entry_of
from auth_billing.people.sessions import BrowserSession
from chat_ui.http.access_control import Admin
from chat_ui.http.responses import schema_response
from chat_ui.http.schemas.model_access import ModelAccess, ModelPolicy, ModelPolicyJson
from chat_ui.services import record_event, services_of

router = APIRouter(prefix="/model-access")


@router.get("", response_model=ModelAccess)
async def list_model_policies(request: Request, caller: Admin) -> Response:
    """List the model policies of projects, roles and members, and the served models (`GET /api/admin/model-access`)."""
    return schema_response(await _access(request, caller))


@router.post("", response_model=ModelAccess)
async def set_model_policy(request: Request, caller: Admin, body: ModelPolicyJson) -> Response:
    """Set which models a project, a role or a member may use, within five seconds (`POST /api/admin/model-access`).

    Owners can't be restricted, and only owners restrict administrators.
    """
    subject = PolicySubject(body.kind, body.id)
    policy = model_access.ModelPolicy(PolicyMode(body.mode), frozenset(body.model_ids))
    await services_of(request).admin.administration.model_policies.set(caller.actor, subject, policy)
    event, project, details = audit_entry_of(subject, policy)
    await record_event(request, caller, event, subject.id, project=project, details=details)
    return schema_response(await _access(request, caller))


async def _access(request: Request, caller: BrowserSession) -> ModelAccess:
    admin = services_of(request).admin
    policies = await admin.administration.model_policies.all(caller.organisation)
    return ModelAccess(
        policies=[
            ModelPolicy(kind=subject.kind, id=subject.id, mode=policy.mode.value, model_ids=sorted(policy.models))
            for subject, policy in policies.items()
        ],
        models=[model.name for model in admin.fleet.models()],
    )
