"""Projects and who belongs to them. Source: `Project`, `ProjectUser` and their requests in OpenAI's specification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import StringConstraints

from gateway.openai.base import ApiModel, Refused, RequestBody
from gateway.openai.organization.lists import ItemList, PageQuery
from gateway.openai.query import QueryBool

Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
_ELSEWHERE: Mapping[str, Refused] = {
    "external_key_id": Refused("the store encrypts nothing by keys from outside"),
    "residency": Refused("data is where the operator's store is"),
}


class Project(ApiModel):
    """A part of the organisation with keys, limits and budgets of its own."""

    id: str
    object: Literal["organization.project"] = "organization.project"
    name: str
    created_at: int
    archived_at: int | None = None
    status: Literal["active", "archived"]


class ProjectList(ItemList[Project]):
    """A page of projects."""


class ProjectQuery(PageQuery):
    """Which projects."""

    include_archived: QueryBool = False
    """Those too that are out of use."""


class ProjectCreate(RequestBody):
    """Body of `POST /v1/organization/projects`."""

    not_offered: ClassVar[Mapping[str, Refused]] = _ELSEWHERE

    name: Name


class ProjectUpdate(RequestBody):
    """Body of `POST /v1/organization/projects/{project_id}`."""

    not_offered: ClassVar[Mapping[str, Refused]] = _ELSEWHERE

    name: Name | None = None


class ProjectUser(ApiModel):
    """A person of the organisation, who may use all of its projects."""

    object: Literal["organization.project.user"] = "organization.project.user"
    id: str
    name: str
    email: str
    role: Literal["owner", "member"]
    added_at: int


class ProjectUserList(ItemList[ProjectUser]):
    """A page of people."""
