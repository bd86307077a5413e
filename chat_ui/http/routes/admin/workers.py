"""Route of workers, models and queue lengths, from heartbeats: `/api/admin/workers`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from chat_ui.chat import chat_of
from chat_ui.http.answers import shown
from chat_ui.http.guard import Admin
from chat_ui.http.shapes.administration import ModelLoad, Worker, WorkerList

router = APIRouter()


@router.get("/workers", response_model=WorkerList)
async def list_workers(request: Request, caller: Admin) -> Response:
    """List the models seen within the last hour, and the live workers."""
    office = chat_of(request).office
    models = [
        ModelLoad(
            id=each.name,
            task=each.task.value,
            workers=each.workers,
            running=each.running,
            waiting=each.waiting,
            capacity=each.capacity,
            queued=office.fleet.queued(each.name),
            alive=each.alive,
        )
        for each in office.fleet.models()
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
        for each in office.fleet.workers()
    ]
    return shown(WorkerList(models=models, workers=workers, console=office.console or None))
