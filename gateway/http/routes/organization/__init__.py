"""`/v1/organization`: administration as OpenAI has it, for admin API keys of owners and administrators."""

from __future__ import annotations

from fastapi import APIRouter

from gateway.http.routes.organization import admin_api_keys
from gateway.http.routes.organization import api_keys
from gateway.http.routes.organization import audit_logs
from gateway.http.routes.organization import export
from gateway.http.routes.organization import invites
from gateway.http.routes.organization import projects
from gateway.http.routes.organization import rate_limits
from gateway.http.routes.organization import service_accounts
from gateway.http.routes.organization import spend_limits
from gateway.http.routes.organization import usage
from gateway.http.routes.organization import users

router = APIRouter()
for routes in (
    projects,
    service_accounts,
    api_keys,
    admin_api_keys,
    spend_limits,
    rate_limits,
    users,
    invites,
    usage,
    export,
    audit_logs,
):
    router.include_router(routes.router)
