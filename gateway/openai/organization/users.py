"""Request and response models of `/v1/organization/users` and `/invites`, from OpenAI's specification.

Headrace has more roles than OpenAI's `owner` and `reader`: an invitation carries both forms, a user only Headrace's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from gateway.openai.base import ApiModel, OmitIfNone, Refused, RequestBody
from gateway.openai.pagination import Deleted, ItemList, PageQuery
from gateway.openai.query_parameters import QueryText

RoleName = Literal["owner", "admin", "member", "viewer", "reader"]
"""`reader` is OpenAI's name of the role `member`."""


class User(ApiModel):
    """A member of the organisation."""

    object: Literal["organization.user"] = "organization.user"
    id: str
    name: str
    email: str
    role: str
    added_at: int


class UserList(ItemList[User]):
    """A page of users."""


class UserQuery(PageQuery):
    """Query of the organisation's users."""

    emails: Annotated[list[QueryText], Field(default_factory=list, max_length=100)]
    """Email addresses of the users to return; default: all users."""


class UserUpdate(RequestBody):
    """Body of `POST /v1/organization/users/{user_id}`."""

    not_offered: ClassVar[Mapping[str, Refused]] = {"role_id": Refused("roles have names: use `role`")}

    role: RoleName | None = None


class UserDeleted(Deleted):
    """Confirmation that a user was removed from the organisation."""

    object: Literal["organization.user.deleted"] = "organization.user.deleted"


class Invite(ApiModel):
    """An invitation into the organisation."""

    object: Literal["organization.invite"] = "organization.invite"
    id: str
    email: str
    role: Literal["owner", "reader"]
    organization_role: str
    """Headrace's role."""
    status: Literal["accepted", "expired", "pending"]
    created_at: int
    expires_at: int
    accepted_at: int | None = None
    projects: list[InviteProject] = Field(default_factory=list)
    token: OmitIfNone[str] = None
    """Secret with which the invitation is accepted; only in the response that creates it. No mail is sent."""


class InviteProject(ApiModel):
    """A project of an invitation. Never used: every member of the organisation may use all of its projects."""

    id: str
    role: Literal["member", "owner"]


class InviteList(ItemList[Invite]):
    """A page of invitations."""


class InviteCreate(RequestBody):
    """Body of `POST /v1/organization/invites`."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        "projects": Refused("members of the organisation may use all of its projects", ([],))
    }

    email: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    role: RoleName


class InviteDeleted(Deleted):
    """Confirmation that an invitation was revoked."""

    object: Literal["organization.invite.deleted"] = "organization.invite.deleted"
