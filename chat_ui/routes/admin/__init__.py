"""`/api/admin`: what administrators and owners see and change, one file a page."""

from fastapi import APIRouter

from chat_ui.routes.admin import audit, keys, money, projects, workers

router = APIRouter(prefix="/admin")
for _each in (projects, keys, money, workers, audit):
    router.include_router(_each.router)
