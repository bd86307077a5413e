"""Route of workers, models and queue lengths, from heartbeats: `/api/admin/workers`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from chat_ui.http.access_control import Admin
from chat_ui.http.responses import schema_response
from chat_ui.http.schemas.administration import ModelLoad, Worker, WorkerList
from chat_ui.services import services_of

router = APIRouter()


@router.get("/workers", response_model=WorkerList)
async def list_workers(request: Request, caller: Admin) -> Response:
    """List the models seen within the last hour, and the live workers."""
    admin = services_of(request).admin
    models = [
        ModelLoad(
            id=each.name,
            task=each.task.value,
            workers=each.workers,
            running=each.running,
            waiting=each.waiting,
            capacity=each.capacity,
            queued=admin.fleet.queued(each.name),
            alive=each.alive,
        )
        for each in admin.fleet.models()
    ]
    workers = [
        Worker(
            id=each.worker,
            model=each.model,
            state=each.state.value,
            device=each.device,
            running=each.running,
            waiting=each.waiting,
            capacity=each.max_num_seqs,
            kv_cache_usage=each.kv_cache_usage,
            tokens_per_second=each.tokens_per_second,
            started=each.started,
        )
        for each in admin.fleet.workers()
    ]
    return schema_response(WorkerList(models=models, workers=workers, console=admin.console_url or None))
