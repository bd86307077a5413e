"""Routes of an organisation's members and invitations, for its administrators: `/api/people`, `/api/invitations`.

Permissions are decided by `auth_billing`, from the session's organisation and role.
"""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from auth_billing.access.roles import Role
from auth_billing.audit_log import Event
from chat_ui.http.access_control import Caller
from chat_ui.http.request_bodies import EmptyBody, InvitationBody, RoleBody, body_of
from chat_ui.http.responses import invitation_fields, json_response, member_fields, no_content
from chat_ui.http.schemas.people import Invitation, InvitationList, NewInvitation, Person, PersonList
from chat_ui.services import audit_actor, services_of

router = APIRouter()


@router.get("/people", response_model=PersonList)
async def list_people(request: Request, caller: Caller) -> Response:
    """List all members, oldest first."""
    caller.actor.require(Role.ADMIN)
    members = await services_of(request).access.members.all(caller.organisation)
    return json_response({"people": [member_fields(member) for member in members]})


@router.patch("/people/{user}", response_model=Person)
async def change_role(
    request: Request, user: str, caller: Caller, body: Annotated[RoleBody, Depends(body_of(RoleBody))]
) -> Response:
    """Change a member's role."""
    caller.actor.require(Role.ADMIN)
    services = services_of(request)
    member = await services.access.members.change_role(caller.actor, user, body.role)
    await services.audit.record(
        caller.organisation,
        Event.USER_UPDATED,
        user,
        audit_actor(request, caller.user),
        details={"role": member.role.value, "email": member.user.email},
    )
    return json_response(member_fields(member))


@router.delete("/people/{user}", status_code=204)
async def remove_person(
    request: Request, user: str, caller: Caller, _empty: Annotated[EmptyBody, Depends(body_of(EmptyBody))]
) -> Response:
    """Remove a member; the person's sessions in the organisation end within seconds."""
    if user != caller.user.id:
        caller.actor.require(Role.ADMIN)
    services = services_of(request)
    member = await services.access.members.find(caller.organisation, user)
    await services.access.members.remove(caller.actor, user)
    await services.audit.record(
        caller.organisation,
        Event.USER_DELETED,
        user,
        audit_actor(request, caller.user),
        details={"role": member.role.value, "email": member.user.email},
    )
    return no_content()


@router.get("/invitations", response_model=InvitationList)
async def list_invitations(request: Request, caller: Caller) -> Response:
    """List all invitations, newest first."""
    caller.actor.require(Role.ADMIN)
    invitations = await services_of(request).access.invitations.all(caller.organisation)
    return json_response({"invitations": [invitation_fields(each, time.time()) for each in invitations]})


@router.post("/invitations", response_model=NewInvitation, status_code=201)
async def invite(
    request: Request, caller: Caller, body: Annotated[InvitationBody, Depends(body_of(InvitationBody))]
) -> Response:
    """Create an invitation. Only this response has its token, which the administrator sends as a link."""
    services = services_of(request)
    invitation, token = await services.access.invitations.invite(caller.actor, body.role, body.email)
    await services.audit.record(
        caller.organisation,
        Event.INVITE_SENT,
        invitation.id,
        audit_actor(request, caller.user),
        details={"role": invitation.role.value, "email": invitation.email},
    )
    return json_response({**invitation_fields(invitation, invitation.created), "token": token}, 201)


@router.delete("/invitations/{invitation_id}", response_model=Invitation)
async def revoke_invitation(
    request: Request, invitation_id: str, caller: Caller, _empty: Annotated[EmptyBody, Depends(body_of(EmptyBody))]
) -> Response:
    """Revoke an invitation."""
    services = services_of(request)
    invitation = await services.access.invitations.revoke(caller.actor, invitation_id)
    await services.audit.record(
        caller.organisation, Event.INVITE_DELETED, invitation.id, audit_actor(request, caller.user)
    )
    return json_response(invitation_fields(invitation, time.time()))
