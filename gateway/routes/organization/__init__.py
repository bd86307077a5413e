"""`/v1/organization`: administration as OpenAI has it, for admin API keys of owners and administrators."""

from __future__ import annotations

from fastapi import APIRouter

from gateway.routes.organization import audit_logs, invites, projects, usage, users

router = APIRouter()
for routes in (projects, users, invites, usage, audit_logs):
    router.include_router(routes.router)
