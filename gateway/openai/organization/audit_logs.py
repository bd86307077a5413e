"""Request and response models of `/v1/organization/audit_logs`, from OpenAI's specification.

An event's details are in a field named after its type: `{"type": "project.created", "project.created": {...}}`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from auth_billing.audit_log import Event
from gateway.openai.base import ApiModel, OmitIfNone
from gateway.openai.pagination import ItemList, PageQuery
from gateway.openai.query_parameters import QueryInt, QueryParameters, QueryText

Texts = Annotated[list[QueryText], Field(default_factory=list, max_length=100)]


class AuditLogUser(ApiModel):
    """The user behind an audited action."""

    id: str
    email: str


class AuditLogSession(ApiModel):
    """A signed-in session that performed an audited action."""

    user: AuditLogUser
    ip_address: str


class AuditLogApiKey(ApiModel):
    """An API key that performed an audited action, with its owner."""

    id: str
    type: Literal["user", "service_account"]
    user: OmitIfNone[AuditLogUser] = None
    ip_address: str


class AuditLogActor(ApiModel):
    """The session or the API key that performed an audited action."""

    type: Literal["session", "api_key"]
    session: OmitIfNone[AuditLogSession] = None
    api_key: OmitIfNone[AuditLogApiKey] = None


class AuditLogProject(ApiModel):
    """The project in which an audited action was performed."""

    id: str


class AuditLog(ApiModel):
    """One entry of the audit log. `actor` is null for an action of the operator at the command line."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    id: str
    type: str
    effective_at: int
    project: OmitIfNone[AuditLogProject] = None
    actor: AuditLogActor | None


class AuditLogList(ItemList[AuditLog]):
    """A page of audit log entries, newest first."""


class TimeRange(QueryParameters):
    """A range of times in Unix seconds."""

    gt: QueryInt | None = None
    gte: QueryInt | None = None
    lt: QueryInt | None = None
    lte: QueryInt | None = None


class AuditLogQuery(PageQuery):
    """Query of the audit log; an entry must match all of its conditions."""

    effective_at: TimeRange = TimeRange()
    """Time of the action."""
    project_ids: Texts
    event_types: Annotated[list[Annotated[Event, Field(strict=False)]], Field(default_factory=list, max_length=100)]
    actor_ids: Texts
    """Ids of the users or API keys that acted."""
    actor_emails: Texts
    resource_ids: Texts
    """Ids of the objects acted on."""
    before: QueryText | None = None
    """Id of an entry; the page ends just before it in the list. Excludes `after`."""
