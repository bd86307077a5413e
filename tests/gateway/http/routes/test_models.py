"""Several models behind one gateway: each request reaches a worker of its model, under its name or an alias."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from router.bus import Bus
from router.transport.memory import MemoryTransport
from tests.fakes.scripted_worker import ScriptedWorker, embed, say
from tests.gateway.conftest import MODEL, SetStage, Stage, eventually

SECOND, EMBEDDER = "org/second-model", "org/embedder"
ALIASES = f'[aliases]\nsmall = "{SECOND}"\ntext-embedding-3-small = "{EMBEDDER}"\n'


@pytest.fixture
async def two_models(set_stage: SetStage, tmp_path: Path) -> AsyncIterator[tuple[Stage, dict[str, ScriptedWorker]]]:
    """Two models that generate and one that embeds, each with a worker, and an alias of the latter two."""
    file = tmp_path / "aliases.toml"
    file.write_text(ALIASES, encoding="utf-8")
    stage = await set_stage(say("first"), model_aliases=str(file))
    workers = {MODEL: stage.worker}
    async with AsyncExitStack() as stack:
        for model, script, dimensions in ((SECOND, say("second"), 0), (EMBEDDER, embed, 4)):
            bus = Bus(MemoryTransport(stage.broker, model))
            await bus.start()
            stack.push_async_callback(bus.close)
            worker = ScriptedWorker(bus, model, script, f"worker-of-{model}", dimensions=dimensions)
            workers[model] = await stack.enter_async_context(worker.running())
        await eventually(lambda: all(stage.gateway.models.find(model) is not None for model in workers))
        yield stage, workers


def jobs(workers: dict[str, ScriptedWorker]) -> dict[str, int]:
    return {model: len(worker.jobs) for model, worker in workers.items()}


async def test_all_models_are_listed(two_models: tuple[Stage, dict[str, ScriptedWorker]]) -> None:
    stage, _ = two_models
    listed = (await stage.client.get("/v1/models")).json()["data"]
    assert {model["id"]: model["root"] for model in listed} == {
        MODEL: MODEL,
        SECOND: SECOND,
        EMBEDDER: EMBEDDER,
        "small": SECOND,
        "text-embedding-3-small": EMBEDDER,
    }


async def test_each_request_reaches_a_worker_of_its_model(two_models: tuple[Stage, dict[str, ScriptedWorker]]) -> None:
    stage, workers = two_models
    names = [MODEL, SECOND, "small"] * 4
    answers = await asyncio.gather(*(stage.chat(model=name) for name in names))
    told = [(answer.json()["model"], answer.json()["choices"][0]["message"]["content"]) for answer in answers]
    assert told == [(MODEL, "first"), (SECOND, "second"), (SECOND, "second")] * 4
    assert jobs(workers) == {MODEL: 4, SECOND: 8, EMBEDDER: 0}
    for model, worker in workers.items():
        assert {job.model for job in worker.jobs} <= {model}


async def test_an_alias_of_an_embedding_model(two_models: tuple[Stage, dict[str, ScriptedWorker]]) -> None:
    stage, workers = two_models
    body = {"model": "text-embedding-3-small", "input": ["a", "b"]}
    answer = (await stage.client.post("/v1/embeddings", json=body)).json()
    assert (answer["model"], [row["index"] for row in answer["data"]]) == (EMBEDDER, [0, 1])
    assert jobs(workers) == {MODEL: 0, SECOND: 0, EMBEDDER: 1}
    wrong = await stage.chat(model="text-embedding-3-small")
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "model")
    assert jobs(workers)[EMBEDDER] == 1


@pytest.mark.parametrize(("name", "status"), [(SECOND, 403), ("small", 403), ("org/unknown", 404)])
async def test_no_model_can_be_deleted(
    two_models: tuple[Stage, dict[str, ScriptedWorker]], name: str, status: int
) -> None:
    stage, _ = two_models
    response = await stage.client.delete(f"/v1/models/{name}")
    code = {403: "model_not_deletable", 404: "model_not_found"}[status]
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert (await stage.client.get(f"/v1/models/{SECOND}")).status_code == 200
