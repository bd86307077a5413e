"""Routes of an organisation's members and invitations, for its administrators: `/api/people`, `/api/invitations`.

Permissions are decided by `auth_billing`, from the session's organisation and role.
"""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from auth_billing.access.roles import Role
from auth_billing.audit_log import Event
from chat_ui.chat import chat_of, doer
from chat_ui.http.answers import invitation_row, json_answer, nothing, person
from chat_ui.http.bodies import InvitationBody, NoBody, RoleBody, body_of
from chat_ui.http.guard import Caller
from chat_ui.http.shapes.people import Invitation, InvitationList, NewInvitation, Person, PersonList

router = APIRouter()


@router.get("/people", response_model=PersonList)
async def list_people(request: Request, caller: Caller) -> Response:
    """List all members, oldest first."""
    caller.actor.require(Role.ADMIN)
    members = await chat_of(request).access.people.members(caller.organisation)
    return json_answer({"people": [person(member) for member in members]})


@router.patch("/people/{user}", response_model=Person)
async def change_role(
    request: Request, user: str, caller: Caller, body: Annotated[RoleBody, Depends(body_of(RoleBody))]
) -> Response:
    """Change a member's role."""
    caller.actor.require(Role.ADMIN)
    chat = chat_of(request)
    member = await chat.access.people.change_role(caller.actor, user, body.role)
    await chat.audit.record(
        caller.organisation,
        Event.USER_UPDATED,
        user,
        doer(request, caller.user),
        details={"role": member.role.value, "email": member.user.email},
    )
    return json_answer(person(member))


@router.delete("/people/{user}", status_code=204)
async def remove_person(
    request: Request, user: str, caller: Caller, _none: Annotated[NoBody, Depends(body_of(NoBody))]
) -> Response:
    """Remove a member; the person's sessions in the organisation end within seconds."""
    if user != caller.user.id:
        caller.actor.require(Role.ADMIN)
    chat = chat_of(request)
    member = await chat.access.people.member(caller.organisation, user)
    await chat.access.people.remove(caller.actor, user)
    await chat.audit.record(
        caller.organisation,
        Event.USER_DELETED,
        user,
        doer(request, caller.user),
        details={"role": member.role.value, "email": member.user.email},
    )
    return nothing()


@router.get("/invitations", response_model=InvitationList)
async def list_invitations(request: Request, caller: Caller) -> Response:
    """List all invitations, newest first."""
    caller.actor.require(Role.ADMIN)
    invitations = await chat_of(request).access.invitations.all(caller.organisation)
    return json_answer({"invitations": [invitation_row(each, time.time()) for each in invitations]})


@router.post("/invitations", response_model=NewInvitation, status_code=201)
async def invite(
    request: Request, caller: Caller, body: Annotated[InvitationBody, Depends(body_of(InvitationBody))]
) -> Response:
    """Create an invitation. Only this response has its token, which the administrator sends as a link."""
    chat = chat_of(request)
    invitation, token = await chat.access.invitations.invite(caller.actor, body.role, body.email)
    await chat.audit.record(
        caller.organisation,
        Event.INVITE_SENT,
        invitation.id,
        doer(request, caller.user),
        details={"role": invitation.role.value, "email": invitation.email},
    )
    return json_answer({**invitation_row(invitation, invitation.created), "token": token}, 201)


@router.delete("/invitations/{invitation_id}", response_model=Invitation)
async def revoke_invitation(
    request: Request, invitation_id: str, caller: Caller, _none: Annotated[NoBody, Depends(body_of(NoBody))]
) -> Response:
    """Revoke an invitation."""
    chat = chat_of(request)
    invitation = await chat.access.invitations.revoke(caller.actor, invitation_id)
    await chat.audit.record(caller.organisation, Event.INVITE_DELETED, invitation.id, doer(request, caller.user))
    return json_answer(invitation_row(invitation, time.time()))
