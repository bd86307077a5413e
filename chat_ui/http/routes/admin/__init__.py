"""HTTP routes of the administration pages below `/api/admin`, one module per page, for administrators and owners."""

from fastapi import APIRouter

from chat_ui.http.routes.admin import (
    audit,
    billing,
    collections,
    installation,
    keys,
    model_access,
    moderation,
    projects,
    rate_limits,
    workers,
)

router = APIRouter(prefix="/admin")
_PAGES = (projects, keys, model_access, moderation, billing, installation, rate_limits, workers, collections, audit)
for _each in _PAGES:
    router.include_router(_each.router)
