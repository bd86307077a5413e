"""Models of API keys, admin keys and service accounts in `/v1/organization`; converts key ids to clients' form.

Source: `ProjectApiKey`, `ProjectServiceAccount`, `AdminApiKey` and their requests in OpenAI's specification; scopes,
models and expiry are extensions. A key's `value` is its secret text, which only the response that creates it contains.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from auth_billing.access.scopes import Scope
from gateway.openai.base import ApiModel, OmitIfNone, Refused, RequestBody
from gateway.openai.organization.projects import Name
from gateway.openai.organization.spend_limits import SpendLimitUpdate
from gateway.openai.pagination import Deleted, ItemList, PageQuery

PREFIX = "key_"

Lifetime = Annotated[int, Field(ge=1, le=31_536_000)]
ScopeName = Annotated[Scope, Field(strict=False)]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200)]


def format_key_id(key_id: str) -> str:
    """Return the id of an API key in the form that clients see, with a prefix; "" (no key) stays ""."""
    return PREFIX + key_id if key_id else ""


def parse_key_id(shown: str) -> str:
    """Return the stored id of an API key from the form that clients see, without the prefix (see `format_key_id`)."""
    return shown.removeprefix(PREFIX)


class KeyOwner(ApiModel):
    """The user or service account that owns a key."""

    id: str
    name: str
    email: OmitIfNone[str] = None
    created_at: int
    role: str


class ProjectKeyOwner(ApiModel):
    """The owner of a project's key: a user or a service account."""

    type: Literal["user", "service_account"]
    user: OmitIfNone[KeyOwner] = None
    service_account: OmitIfNone[KeyOwner] = None


class ProjectApiKey(ApiModel):
    """An API key of a project."""

    object: Literal["organization.project.api_key"] = "organization.project.api_key"
    id: str
    name: str
    redacted_value: str
    created_at: int
    last_used_at: int | None
    expires_at: int | None
    scopes: list[str]
    models: list[str] | None
    """Names of the models that the key may use; null: all."""
    owner_project_access: Literal["active", "inactive"] = "active"
    owner: ProjectKeyOwner


class ProjectApiKeyList(ItemList[ProjectApiKey]):
    """A page of a project's API keys."""


class ProjectApiKeyQuery(PageQuery):
    """Query of a project's API keys."""

    owner_project_access: Literal["active", "inactive", "any"] = "active"
    """Access of the keys' owners. Keys are revoked together with their owner's access, so none is inactive."""


class ProjectApiKeyDeleted(Deleted):
    """Confirmation that a project's API key was revoked."""

    object: Literal["organization.project.api_key.deleted"] = "organization.project.api_key.deleted"


class KeyCreate(RequestBody):
    """Body of `POST .../service_accounts/{service_account_id}/api_keys`. All but `name` and `scopes` are extensions."""

    name: Name | None = None
    scopes: Annotated[list[ScopeName], Field(min_length=1, max_length=16)] | None = None
    """Scopes of the key; default: all scopes of project keys."""
    expires_in_seconds: Lifetime | None = None
    """Lifetime of the key."""
    models: Annotated[list[ModelName], Field(min_length=1, max_length=100)] | None = None
    """Models that the key may use; default: all."""
    spend_limit: SpendLimitUpdate | None = None
    """Monthly budget of the key, in force from its first request."""


class ServiceAccountCreate(KeyCreate):
    """Body of `POST .../service_accounts`: an account and its first key. All but two fields are extensions."""

    name: Name
    create_service_account_only: bool | None = None
    """Create no key."""


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
    """A service account: an owner of API keys that is not a person."""

    object: Literal["organization.project.service_account"] = "organization.project.service_account"
    id: str
    name: str
    role: Literal["member"] = "member"
    created_at: int


class CreatedServiceAccount(ServiceAccount):
    """A new service account with its first key."""

    api_key: CreatedKey | None


class ServiceAccountList(ItemList[ServiceAccount]):
    """A page of service accounts."""


class ServiceAccountDeleted(Deleted):
    """Confirmation that a service account was deleted and its keys were revoked."""

    object: Literal["organization.project.service_account.deleted"] = "organization.project.service_account.deleted"


class AdminKeyOwner(KeyOwner):
    """The user or service account that created an admin API key."""

    type: Literal["user", "service_account"]
    object: Literal["organization.user", "organization.service_account"]


class AdminApiKey(ApiModel):
    """An admin API key of the organisation."""

    object: Literal["organization.admin_api_key"] = "organization.admin_api_key"
    id: str
    name: str
    redacted_value: str
    value: OmitIfNone[str] = None
    created_at: int
    last_used_at: int | None
    expires_at: int | None
    owner: AdminKeyOwner


class AdminApiKeyList(ItemList[AdminApiKey]):
    """A page of admin API keys."""


class AdminApiKeyCreate(RequestBody):
    """Body of `POST /v1/organization/admin_api_keys`; `scopes` is an extension."""

    name: Name
    expires_in_seconds: Lifetime | None = None
    scopes: Annotated[list[ScopeName], Field(min_length=1, max_length=16)] | None = None
    """Scopes of the key; `organization.read` alone makes it read-only. Default: those of the calling key."""


class AdminApiKeyDeleted(Deleted):
    """Confirmation that an admin API key was revoked."""

    object: Literal["organization.admin_api_key.deleted"] = "organization.admin_api_key.deleted"
