"""The audit log. Source: `AuditLog` and `/organization/audit_logs` in OpenAI's specification.

What was done is under a name of its own, the event's: `{"type": "project.created", "project.created": {...}}`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from auth_billing.audit_log import Event
from gateway.openai.base import ApiModel, Extra
from gateway.openai.organization.lists import ItemList, PageQuery
from gateway.openai.query import QueryInt, QueryParameters, QueryText

Texts = Annotated[list[QueryText], Field(default_factory=list, max_length=100)]


class AuditLogUser(ApiModel):
    """Who did it."""

    id: str
    email: str


class AuditLogSession(ApiModel):
    """Somebody who had signed in."""

    user: AuditLogUser
    ip_address: str


class AuditLogApiKey(ApiModel):
    """An API key, and whose it is."""

    id: str
    type: Literal["user", "service_account"]
    user: Extra[AuditLogUser] = None
    ip_address: str


class AuditLogActor(ApiModel):
    """One of the two."""

    type: Literal["session", "api_key"]
    session: Extra[AuditLogSession] = None
    api_key: Extra[AuditLogApiKey] = None


class AuditLogProject(ApiModel):
    """Where it was done."""

    id: str


class AuditLog(ApiModel):
    """One act. `actor` is null if it was the operator, at the command line."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    id: str
    type: str
    effective_at: int
    project: Extra[AuditLogProject] = None
    actor: AuditLogActor | None


class AuditLogList(ItemList[AuditLog]):
    """A page of acts, newest first."""


class TimeRange(QueryParameters):
    """Unix seconds."""

    gt: QueryInt | None = None
    gte: QueryInt | None = None
    lt: QueryInt | None = None
    lte: QueryInt | None = None


class AuditLogQuery(PageQuery):
    """Which acts; of several kinds of condition all count."""

    effective_at: TimeRange = TimeRange()
    """When it was done."""
    project_ids: Texts
    event_types: Annotated[list[Annotated[Event, Field(strict=False)]], Field(default_factory=list, max_length=100)]
    actor_ids: Texts
    """Users or keys."""
    actor_emails: Texts
    resource_ids: Texts
    """What it was done to."""
    before: QueryText | None = None
    """The id of an entry: those just before it in the list. Not with `after`."""
