"""HTTP routes of the administration pages below `/api/admin`, one module per page, for administrators and owners."""

from fastapi import APIRouter

from chat_ui.http.routes.admin import (
    audit,
    billing,
    installation,
    keys,
    model_access,
    moderation,
    projects,
    rate_limits,
    workers,
)

router = APIRouter(prefix="/admin")
for _each in (projects, keys, model_access, moderation, billing, installation, rate_limits, workers, audit):
    router.include_router(_each.router)
