"""Lists all request body models of the organisation and operator APIs, which the OpenAPI document has to describe."""

from __future__ import annotations

from gateway.openai.base import RequestBody
from gateway.openai.operator import CreditCreate, PriceUpdate
from gateway.openai.organization.document_audit import DocumentAuditUpdate
from gateway.openai.organization.keys import AdminApiKeyCreate, KeyCreate, ServiceAccountCreate, ServiceAccountUpdate
from gateway.openai.organization.model_permissions import ModelPermissionsUpdate
from gateway.openai.organization.moderation import ProjectModerationUpdate
from gateway.openai.organization.projects import ProjectCreate, ProjectUpdate
from gateway.openai.organization.rate_limits import RateLimitUpdate
from gateway.openai.organization.spend_limits import SpendLimitUpdate
from gateway.openai.organization.users import InviteCreate, UserUpdate

BODIES: tuple[type[RequestBody], ...] = (
    ProjectCreate,
    ProjectUpdate,
    ServiceAccountCreate,
    ServiceAccountUpdate,
    KeyCreate,
    AdminApiKeyCreate,
    SpendLimitUpdate,
    RateLimitUpdate,
    ModelPermissionsUpdate,
    ProjectModerationUpdate,
    DocumentAuditUpdate,
    UserUpdate,
    InviteCreate,
    CreditCreate,
    PriceUpdate,
)
