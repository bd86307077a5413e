"""API keys and service accounts. Source: `ProjectApiKey`, `ProjectServiceAccount`, `AdminApiKey` and their requests.

A key's `value` is its text: only in the answer that makes it. Ours say more than OpenAI's: scopes, models, expiry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from auth_billing.keys.scopes import Scope
from gateway.openai.base import ApiModel, Extra, Refused, RequestBody
from gateway.openai.organization.lists import Deleted, ItemList, PageQuery
from gateway.openai.organization.projects import Name
from gateway.openai.organization.spend_limits import SpendLimitUpdate

PREFIX = "key_"

Lifetime = Annotated[int, Field(ge=1, le=31_536_000)]
ScopeName = Annotated[Scope, Field(strict=False)]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200)]


def shown_key(key_id: str) -> str:
    """A key's id as clients see it; "" (nobody's key) stays."""
    return PREFIX + key_id if key_id else ""


def key_id_of(shown: str) -> str:
    """The id that is shown so."""
    return shown.removeprefix(PREFIX)


class KeyOwner(ApiModel):
    """A person or a service account."""

    id: str
    name: str
    email: Extra[str] = None
    created_at: int
    role: str


class ProjectKeyOwner(ApiModel):
    """One of the two."""

    type: Literal["user", "service_account"]
    user: Extra[KeyOwner] = None
    service_account: Extra[KeyOwner] = None


class ProjectApiKey(ApiModel):
    """A key of a project."""

    object: Literal["organization.project.api_key"] = "organization.project.api_key"
    id: str
    name: str
    redacted_value: str
    created_at: int
    last_used_at: int | None
    expires_at: int | None
    scopes: list[str]
    models: list[str] | None
    """Those that it may ask for; null: all."""
    owner_project_access: Literal["active", "inactive"] = "active"
    owner: ProjectKeyOwner


class ProjectApiKeyList(ItemList[ProjectApiKey]):
    """A page of keys."""


class ProjectApiKeyQuery(PageQuery):
    """Which keys."""

    owner_project_access: Literal["active", "inactive", "any"] = "active"
    """A key ends with its owner's access: none is inactive."""


class ProjectApiKeyDeleted(Deleted):
    """A key that is good for nothing any more."""

    object: Literal["organization.project.api_key.deleted"] = "organization.project.api_key.deleted"


class KeyCreate(RequestBody):
    """Body of `POST .../service_accounts/{service_account_id}/api_keys`. All but `name` and `scopes` are ours."""

    name: Name | None = None
    scopes: Annotated[list[ScopeName], Field(min_length=1, max_length=16)] | None = None
    """What it may do; by default all that a project's key may."""
    expires_in_seconds: Lifetime | None = None
    models: Annotated[list[ModelName], Field(min_length=1, max_length=100)] | None = None
    """Those that it may ask for; by default all."""
    spend_limit: SpendLimitUpdate | None = None
    """A monthly budget of its own, which counts from its first request."""


class ServiceAccountCreate(RequestBody):
    """Body of `POST .../service_accounts`: an account, and its first key. All but the first two are ours."""

    name: Name
    create_service_account_only: bool | None = None
    """Without a key."""
    scopes: Annotated[list[ScopeName], Field(min_length=1, max_length=16)] | None = None
    """What its key may do; by default all that a project's key may."""
    expires_in_seconds: Lifetime | None = None
    """Of its key."""
    models: Annotated[list[ModelName], Field(min_length=1, max_length=100)] | None = None
    """Those that its key may ask for; by default all."""
    spend_limit: SpendLimitUpdate | None = None
    """A monthly budget of its key, which counts from its first request."""


class ServiceAccountUpdate(RequestBody):
    """Body of `POST .../service_accounts/{service_account_id}`."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        "role": Refused("what a key may do is said by its scopes", ("member",))
    }

    name: Name | None = None


class CreatedKey(ApiModel):
    """A new key of a service account."""

    object: Literal["organization.project.service_account.api_key"] = "organization.project.service_account.api_key"
    id: str
    value: str
    name: str
    created_at: int


class ServiceAccount(ApiModel):
    """An owner of keys that is nobody."""

    object: Literal["organization.project.service_account"] = "organization.project.service_account"
    id: str
    name: str
    role: Literal["member"] = "member"
    created_at: int


class CreatedServiceAccount(ServiceAccount):
    """With its first key."""

    api_key: CreatedKey | None


class ServiceAccountList(ItemList[ServiceAccount]):
    """A page of service accounts."""


class ServiceAccountDeleted(Deleted):
    """A service account whose keys are good for nothing any more."""

    object: Literal["organization.project.service_account.deleted"] = "organization.project.service_account.deleted"


class AdminKeyOwner(KeyOwner):
    """Who made it."""

    type: Literal["user", "service_account"]
    object: Literal["organization.user", "organization.service_account"]


class AdminApiKey(ApiModel):
    """A key for administration."""

    object: Literal["organization.admin_api_key"] = "organization.admin_api_key"
    id: str
    name: str
    redacted_value: str
    value: Extra[str] = None
    created_at: int
    last_used_at: int | None
    expires_at: int | None
    owner: AdminKeyOwner


class AdminApiKeyList(ItemList[AdminApiKey]):
    """A page of keys."""


class AdminApiKeyCreate(RequestBody):
    """Body of `POST /v1/organization/admin_api_keys`; `scopes` is ours."""

    name: Name
    expires_in_seconds: Lifetime | None = None
    scopes: Annotated[list[ScopeName], Field(min_length=1, max_length=16)] | None = None
    """`organization.read` for one that changes nothing."""


class AdminApiKeyDeleted(Deleted):
    """A key that is good for nothing any more."""

    object: Literal["organization.admin_api_key.deleted"] = "organization.admin_api_key.deleted"
