"""Routes of the administration pages: `/api/admin`, one module per page, for administrators and owners."""

from fastapi import APIRouter

from chat_ui.http.routes.admin import audit
from chat_ui.http.routes.admin import keys
from chat_ui.http.routes.admin import money
from chat_ui.http.routes.admin import projects
from chat_ui.http.routes.admin import workers

router = APIRouter(prefix="/admin")
for _each in (projects, keys, money, workers, audit):
    router.include_router(_each.router)
