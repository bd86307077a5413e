"""People and invitations. Source: `User`, `Invite` and their requests in OpenAI's specification.

Our roles are finer than OpenAI's `owner` and `reader`: an invitation says both, a user ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from gateway.openai.base import ApiModel, Extra, Refused, RequestBody
from gateway.openai.organization.lists import Deleted, ItemList, PageQuery
from gateway.openai.query import QueryText

RoleName = Literal["owner", "admin", "member", "viewer", "reader"]
"""`reader` is OpenAI's word for a member."""


class User(ApiModel):
    """A person of the organisation."""

    object: Literal["organization.user"] = "organization.user"
    id: str
    name: str
    email: str
    role: str
    added_at: int


class UserList(ItemList[User]):
    """A page of people."""


class UserQuery(PageQuery):
    """Which people."""

    emails: Annotated[list[QueryText], Field(default_factory=list, max_length=100)]
    """Those with these addresses."""


class UserUpdate(RequestBody):
    """Body of `POST /v1/organization/users/{user_id}`."""

    not_offered: ClassVar[Mapping[str, Refused]] = {"role_id": Refused("roles have names: use `role`")}

    role: RoleName | None = None


class UserDeleted(Deleted):
    """A person who belongs to the organisation no more."""

    object: Literal["organization.user.deleted"] = "organization.user.deleted"


class Invite(ApiModel):
    """An invitation into the organisation."""

    object: Literal["organization.invite"] = "organization.invite"
    id: str
    email: str
    role: Literal["owner", "reader"]
    organization_role: str
    """The role itself, in our words."""
    status: Literal["accepted", "expired", "pending"]
    created_at: int
    expires_at: int
    accepted_at: int | None = None
    projects: list[InviteProject] = Field(default_factory=list)
    token: Extra[str] = None
    """What opens the invitation: only in the answer that makes it. Nobody is sent a mail."""


class InviteProject(ApiModel):
    """Never there: whoever belongs to the organisation may use all of its projects."""

    id: str
    role: Literal["member", "owner"]


class InviteList(ItemList[Invite]):
    """A page of invitations."""


class InviteCreate(RequestBody):
    """Body of `POST /v1/organization/invites`."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        "projects": Refused("whoever belongs to the organisation may use all of its projects", ([],))
    }

    email: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    role: RoleName


class InviteDeleted(Deleted):
    """An invitation that opens nothing any more."""

    object: Literal["organization.invite.deleted"] = "organization.invite.deleted"
