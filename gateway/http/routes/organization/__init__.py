"""Routes of `/v1/organization`: OpenAI's administration API, for admin API keys of owners and administrators."""

from __future__ import annotations

from fastapi import APIRouter

from gateway.http.routes.organization import (
    admin_api_keys,
    api_keys,
    audit_logs,
    document_audit,
    export,
    invites,
    model_permissions,
    moderation,
    ownerless_vector_stores,
    projects,
    rate_limits,
    service_accounts,
    spend_limits,
    usage,
    users,
)

router = APIRouter()
for routes in (
    projects,
    service_accounts,
    api_keys,
    admin_api_keys,
    spend_limits,
    rate_limits,
    model_permissions,
    moderation,
    users,
    invites,
    usage,
    export,
    audit_logs,
    document_audit,
    ownerless_vector_stores,
):
    router.include_router(routes.router)
