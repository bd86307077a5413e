"""HTTP routes of an organisation's members and invitations, for administrators: `/api/people`, `/api/invitations`.

Permissions are decided by `auth_billing`, from the session's organisation and role.
"""

from __future__ import annotations

import time

from fastapi import APIRouter, Request, Response

from auth_billing.access.roles import Role
from auth_billing.audit_log import Detail, Event
from auth_billing.people.members import Member
from chat_ui.http.access_control import Admin, Caller
from chat_ui.http.request_bodies import EmptyJson, InvitationJson, RoleJson
from chat_ui.http.responses import invitation_fields, no_content, people_of, schema_response
from chat_ui.http.schemas.people import Invitation, InvitationList, NewInvitation, Person, PersonList
from chat_ui.services import record_event, services_of

router = APIRouter()


@router.get("/people", response_model=PersonList)
async def list_people(request: Request, caller: Admin) -> Response:
    """List all members of the organisation, oldest membership first (`GET /api/people`)."""
    services = services_of(request)
    members = await services.access.members.all(caller.organisation)
    return schema_response(PersonList(people=await people_of(services, members)))


@router.patch("/people/{user}", response_model=Person)
async def change_role(request: Request, user: str, caller: Admin, body: RoleJson) -> Response:
    """Change a member's role, and return the member (`PATCH /api/people/{user}`).

    The member's API keys that have more rights than the new role are revoked.
    """
    member = await services_of(request).access.members.change_role(caller.actor, user, body.role)
    await record_event(request, caller, Event.USER_UPDATED, user, details=_details(member))
    return schema_response((await people_of(services_of(request), [member]))[0])


@router.delete("/people/{user}", status_code=204)
async def remove_person(request: Request, user: str, caller: Caller, _empty: EmptyJson) -> Response:
    """Remove a member from the organisation (`DELETE /api/people/{user}`).

    The person's sessions, API keys and pending invitations there end in seconds.
    """
    if user != caller.user.id:
        caller.actor.require(Role.ADMIN)
    member = await services_of(request).access.members.remove(caller.actor, user)
    await record_event(request, caller, Event.USER_DELETED, user, details=_details(member))
    return no_content()


@router.get("/invitations", response_model=InvitationList)
async def list_invitations(request: Request, caller: Admin) -> Response:
    """List the organisation's invitations in any state, newest first (`GET /api/invitations`)."""
    invitations = await services_of(request).access.invitations.all(caller.organisation)
    rows = [Invitation(**invitation_fields(each, time.time())) for each in invitations]
    return schema_response(InvitationList(invitations=rows))


@router.post("/invitations", response_model=NewInvitation, status_code=201)
async def invite(request: Request, caller: Caller, body: InvitationJson) -> Response:
    """Create an invitation to the organisation (`POST /api/invitations`).

    Only this response has its token, which the administrator sends as a link.
    """
    invitation, token = await services_of(request).access.invitations.invite(caller.actor, body.role, body.email)
    details = {"role": invitation.role.value, "email": invitation.email}
    await record_event(request, caller, Event.INVITE_SENT, invitation.id, details=details)
    return schema_response(NewInvitation(**invitation_fields(invitation, invitation.created), token=token), 201)


@router.delete("/invitations/{invitation_id}", response_model=Invitation)
async def revoke_invitation(request: Request, invitation_id: str, caller: Caller, _empty: EmptyJson) -> Response:
    """Revoke an invitation, so that its link stops working (`DELETE /api/invitations/{invitation_id}`).

    An accepted invitation does not change.
    """
    invitation = await services_of(request).access.invitations.revoke(caller.actor, invitation_id)
    await record_event(request, caller, Event.INVITE_DELETED, invitation.id)
    return schema_response(Invitation(**invitation_fields(invitation, time.time())))


def _details(member: Member) -> dict[str, Detail]:
    return {"role": member.role.value, "email": member.user.email}
