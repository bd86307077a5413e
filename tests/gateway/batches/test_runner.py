"""The runner of a gateway: claims a few batches at a time, and leaves them to others when it ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gateway.batches.batch_run import RunContext
from gateway.batches.runner import MAX_BATCHES, BatchRunner
from stored_objects.project_documents.batches import BatchState
from tests.gateway.batches.test_batch_run import gated
from tests.gateway.conftest import SetStage, eventually
from tests.gateway.http.routes.test_batches import batches_of, create, ended, line


async def test_a_gateway_runs_a_few_batches_at_a_time_and_leaves_a_place_for_other_organisations(
    set_stage: SetStage,
) -> None:
    script, gate = gated()
    stage = await set_stage(script)
    ids = [(await create(stage, [line(number)]))["id"] for number in range(MAX_BATCHES + 2)]
    store = batches_of(stage)
    running = lambda: sum(bool(each.runner) for each in store.records.values())  # noqa: E731
    await eventually(lambda: running() == MAX_BATCHES - 1)
    await asyncio.sleep(0.2)
    assert running() == MAX_BATCHES - 1
    other = replace(store.records[ids[0]], id="batch_other", organisation="another", runner="", lease=0.0)
    await store.insert(other)  # waits in its first state for the file, which its project does not have
    stage.gateway.batch_created.set()
    await eventually(lambda: bool(store.records[other.id].runner))
    gate.set()
    assert [(await ended(stage.client, id))["status"] for id in ids] == ["completed"] * len(ids)


async def test_a_batch_that_another_gateway_had_begun_counts_as_taken_over(set_stage: SetStage) -> None:
    script, gate = gated()
    stage = await set_stage(script)
    store, taken = batches_of(stage), stage.gateway.metrics.takeovers.labels("batch", "continued")
    id = (await create(stage, [line(1)]))["id"]
    await eventually(lambda: store.records[id].state is BatchState.IN_PROGRESS)
    begun = taken._value.get()
    store.records[id] = replace(store.records[id], runner="dead", lease=0.0)
    gate.set()
    assert (await ended(stage.client, id))["status"] == "completed"
    assert (begun, taken._value.get()) == (0.0, 1.0)


async def test_a_runner_that_ends_releases_its_batches(set_stage: SetStage) -> None:
    script, gate = gated()
    stage = await set_stage(script)
    store = batches_of(stage)
    context = RunContext(stage.gateway, stage.app, "another gateway")
    other = asyncio.create_task(BatchRunner(context).run())
    id = (await create(stage, [line(1), line(2)]))["id"]
    await eventually(lambda: store.records[id].state is BatchState.IN_PROGRESS)
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)
    gate.set()
    batch = await ended(stage.client, id)
    assert batch["request_counts"] == {"total": 2, "completed": 2, "failed": 0}
    assert store.records[id].lease == 0.0 or store.records[id].runner != "another gateway"
