"""HTTP route of workers, models and queue lengths from heartbeats, only for operators: `GET /api/admin/workers`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from chat_ui.http.access_control import Operator
from chat_ui.http.responses import schema_response
from chat_ui.http.schemas.administration import ModelLoad, Worker, WorkerList
from chat_ui.services import services_of

router = APIRouter()


@router.get("/workers", response_model=WorkerList)
async def list_workers(request: Request, caller: Operator) -> Response:
    """List the models seen in the last hour and the live workers, for operators (`GET /api/admin/workers`)."""
    admin = services_of(request).admin
    models = [
        ModelLoad.model_validate({**vars(each), "queued": admin.fleet.queued(each.name)})
        for each in admin.fleet.models()
    ]
    workers = [Worker.model_validate(each) for each in admin.fleet.workers()]
    return schema_response(WorkerList(models=models, workers=workers, console=admin.console_url or None))
