"""Routes of `/v1/organization/invites`: list, create, return and revoke invitations to an organisation.

No mail is sent: the response that creates an invitation has its token.
"""

from __future__ import annotations

import time
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Response

from auth_billing.access.roles import Role
from auth_billing.audit_log import Event
from auth_billing.people.people_records import Invitation, InvitationStatus
from gateway.http.api_documentation import document_route
from gateway.http.json_response import json_response
from gateway.http.pagination import page_of, query_of
from gateway.http.routes.organization.access import Reader, Writer, admin_body
from gateway.http.routes.organization.users import role_of
from gateway.openai.organization.users import Invite, InviteCreate, InviteDeleted, InviteList
from gateway.openai.pagination import PageQuery

router = APIRouter(prefix="/v1/organization/invites")


@router.get("", **document_route(InviteList, query=PageQuery))
async def list_invites(admin: Reader, query: Annotated[PageQuery, Depends(query_of(PageQuery))]) -> Response:
    """List a page of the organisation's invitations that are not revoked, newest first.

    Answers `GET /v1/organization/invites`.
    """
    invitations = await admin.administration.invitations.all(admin.organisation)
    invites = [_invite(each) for each in invitations if each.revoked is None]
    return json_response(page_of(InviteList, invites, query))


@router.post("", **document_route(Invite, body=InviteCreate))
async def create_invite(admin: Writer, body: Annotated[InviteCreate, Depends(admin_body(InviteCreate))]) -> Response:
    """Create an invitation to the organisation; only this response has its token, and no mail is sent.

    Answers `POST /v1/organization/invites`.
    """
    invitation, token = await admin.administration.invitations.invite(admin.actor, role_of(body.role), body.email)
    details = {"email": invitation.email, "role": invitation.role.value}
    await admin.record(Event.INVITE_SENT, invitation.id, details=details)
    return json_response(_invite(invitation, token))


@router.get("/{invite_id}", **document_route(Invite))
async def retrieve_invite(invite_id: str, admin: Reader) -> Response:
    """Return one invitation to the organisation, without its token (`GET /v1/organization/invites/{invite_id}`)."""
    return json_response(_invite(await admin.administration.invitations.find(admin.organisation, invite_id)))


@router.delete("/{invite_id}", **document_route(InviteDeleted))
async def delete_invite(invite_id: str, admin: Writer) -> Response:
    """Revoke one invitation, so that its token no longer works (`DELETE /v1/organization/invites/{invite_id}`)."""
    await admin.administration.invitations.revoke(admin.actor, invite_id)
    await admin.record(Event.INVITE_DELETED, invite_id)
    return json_response(InviteDeleted(id=invite_id))


def _invite(invitation: Invitation, token: str | None = None) -> Invite:
    status = invitation.status(time.time())
    return Invite(
        id=invitation.id,
        email=invitation.email,
        role="owner" if invitation.role is Role.OWNER else "reader",
        organization_role=invitation.role.value,
        status=_STATUSES[status],
        created_at=int(invitation.created),
        expires_at=int(invitation.expires),
        accepted_at=None if invitation.accepted is None else int(invitation.accepted),
        token=token,
    )


_STATUSES: dict[InvitationStatus, Literal["accepted", "expired", "pending"]] = {
    InvitationStatus.PENDING: "pending",
    InvitationStatus.ACCEPTED: "accepted",
    InvitationStatus.EXPIRED: "expired",
    InvitationStatus.REVOKED: "expired",
}
