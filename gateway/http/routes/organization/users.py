"""Routes of `/v1/organization/users`: list, return and remove the organisation's members, and change their roles."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from auth_billing.access.roles import Role
from auth_billing.audit_log import Event
from auth_billing.people.input_normalisation import fold_email
from auth_billing.people.members import Member
from gateway.http.api_documentation import document_route
from gateway.http.json_response import json_response
from gateway.http.pagination import page_of, query_of
from gateway.http.routes.organization.access import Reader, Writer, admin_body
from gateway.openai.organization.users import RoleName, User, UserDeleted, UserList, UserQuery, UserUpdate

router = APIRouter(prefix="/v1/organization/users")


def role_of(name: RoleName) -> Role:
    """Convert a role's name in the organisation API to the role; `reader` is a member."""
    return Role.MEMBER if name == "reader" else Role(name)


@router.get("", **document_route(UserList, query=UserQuery))
async def list_users(admin: Reader, query: Annotated[UserQuery, Depends(query_of(UserQuery))]) -> Response:
    """List a page of the organisation's members in order of joining (`GET /v1/organization/users`)."""
    wanted = {fold_email(each) for each in query.emails}
    members = await admin.administration.members.all(admin.organisation)
    users = [_user(each) for each in members if not wanted or fold_email(each.user.email) in wanted]
    return json_response(page_of(UserList, users, query))


@router.get("/{user_id}", **document_route(User))
async def retrieve_user(user_id: str, admin: Reader) -> Response:
    """Return one member of the organisation (`GET /v1/organization/users/{user_id}`)."""
    return json_response(_user(await admin.administration.members.find(admin.organisation, user_id)))


@router.post("/{user_id}", **document_route(User, body=UserUpdate))
async def modify_user(
    user_id: str, admin: Writer, body: Annotated[UserUpdate, Depends(admin_body(UserUpdate))]
) -> Response:
    """Change the role of one member of the organisation (`POST /v1/organization/users/{user_id}`)."""
    members = admin.administration.members
    member = await members.find(admin.organisation, user_id)
    if body.role is not None:
        member = await members.change_role(admin.actor, user_id, role_of(body.role))
        await admin.record(Event.USER_UPDATED, user_id, details={"role": member.role.value})
    return json_response(_user(member))


@router.delete("/{user_id}", **document_route(UserDeleted))
async def delete_user(user_id: str, admin: Writer) -> Response:
    """Remove a member from the organisation; end their sessions, and revoke their keys and invitations.

    Answers `DELETE /v1/organization/users/{user_id}`.
    """
    await admin.administration.members.remove(admin.actor, user_id)
    await admin.record(Event.USER_DELETED, user_id)
    return json_response(UserDeleted(id=user_id))


def _user(member: Member) -> User:
    return User(
        id=member.user.id,
        name=member.user.name,
        email=member.user.email,
        role=member.role.value,
        added_at=int(member.added),
    )
