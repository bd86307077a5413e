"""Request and response models of `/v1/organization/projects` and projects' users, from OpenAI's specification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import StringConstraints

from gateway.openai.base import ApiModel, Refused, RequestBody
from gateway.openai.pagination import ItemList, PageQuery
from gateway.openai.query_parameters import QueryBool

Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
_NOT_OFFERED: Mapping[str, Refused] = {
    "external_key_id": Refused("the store encrypts nothing by keys from outside"),
    "residency": Refused("data is where the operator's store is"),
}


class Project(ApiModel):
    """A project: a part of the organisation with its own keys, limits and budgets."""

    id: str
    object: Literal["organization.project"] = "organization.project"
    name: str
    created_at: int
    archived_at: int | None = None
    status: Literal["active", "archived"]


class ProjectList(ItemList[Project]):
    """A page of projects."""


class ProjectQuery(PageQuery):
    """Query of the organisation's projects."""

    include_archived: QueryBool = False
    """Include archived projects."""


class ProjectCreate(RequestBody):
    """Body of `POST /v1/organization/projects`."""

    not_offered: ClassVar[Mapping[str, Refused]] = _NOT_OFFERED

    name: Name


class ProjectUpdate(RequestBody):
    """Body of `POST /v1/organization/projects/{project_id}`."""

    not_offered: ClassVar[Mapping[str, Refused]] = _NOT_OFFERED

    name: Name | None = None


class ProjectUser(ApiModel):
    """A user of a project. Every member of the organisation may use all of its projects."""

    object: Literal["organization.project.user"] = "organization.project.user"
    id: str
    name: str
    email: str
    role: Literal["owner", "member"]
    added_at: int


class ProjectUserList(ItemList[ProjectUser]):
    """A page of a project's users."""
