"""Runs of one batch: validated, requested within a window, ended; taken over behind what is stored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from starlette.datastructures import Headers

from auth_billing.access.principal import Principal
from gateway.batches import batch_run as batch_run_module
from gateway.batches import results as results_module
from gateway.batches import runner as runner_module
from gateway.batches.input_lines import MAX_FAILURES
from gateway.http.internal_requests import InternalAnswer
from router.bus import Bus
from router.messages import ServiceClass, Usage
from router.transport.memory import MemoryTransport
from stored_objects.project_documents.batches import Batch, BatchProgress, BatchState
from tests.fakes.scripted_worker import ScriptedWorker, count, embed, start_and_wait
from tests.gateway.conftest import MODEL, SetStage, Stage, eventually
from tests.gateway.http.routes.test_batches import batches_of, create, ended, jsonl, line, results, upload

OPEN_FILE = {"output_file": "", "error_file": "", "progress": BatchProgress()}


async def set_record(stage: Stage, id: str, **fields: Any) -> None:
    """Change a batch's record, as if a gateway had died, and have this gateway claim it."""
    store = batches_of(stage)
    store.records[id] = replace(store.records[id], lease=0.0, **fields)
    stage.gateway.batch_created.set()


async def waiting_batch(stage: Stage, lines: list[Any], **fields: Any) -> str:
    """Insert a batch as a route does, with some fields of its record changed; return its id."""
    file = await upload(stage, jsonl(lines))
    stored = await stage.gateway.files.find(batch_owner(stage), file)
    now = time.time()
    batch = Batch("batch_1", "tenant-1", "project-1", "key-1", "/v1/chat/completions", stored.id, now, now + 60)
    await batches_of(stage).insert(replace(batch, **fields))
    stage.gateway.batch_created.set()
    return batch.id


def batch_owner(stage: Stage) -> Any:
    return Batch("", "tenant-1", "project-1", "", "", "", 0.0, 0.0).owner


def gated() -> tuple[Callable[..., Any], asyncio.Event]:
    """A worker's script whose answers wait for an event."""
    gate = asyncio.Event()

    async def script(*arguments: Any) -> None:
        await gate.wait()
        await count(*arguments)

    return script, gate


async def test_a_revoked_key_stops_its_batch(set_stage: SetStage) -> None:
    stage = await set_stage()
    stage.accounts.revoked.add("key-1")
    batch = await ended(stage.client, (await create(stage, [line(1), line(2)]))["id"])
    assert batch["status"] == "cancelled"
    errors = await results(stage.client, batch["error_file_id"])
    assert {id: each["error"]["code"] for id, each in errors.items()} == {
        "line-1": "invalid_api_key",
        "line-2": "invalid_api_key",
    }
    assert stage.worker.jobs == []


async def test_lines_of_a_person_are_requested_as_that_person_while_a_member(set_stage: SetStage) -> None:
    stage = await set_stage()
    person = Principal(key_id="", tenant="tenant-1", cache_salt="", project="project-1", user="ada")
    for codes in ([], ["no_member", "no_member"]):
        file = await stage.gateway.files.find(batch_owner(stage), await upload(stage, jsonl([line(1), line(2)])))
        batch = await stage.gateway.batches.create(person, file, "/v1/chat/completions")
        done = await ended(stage.client, batch.id)
        errors = await results(stage.client, done["error_file_id"])
        assert [each["error"]["code"] for each in errors.values()] == codes
        stage.accounts.revoked.add("ada")
    assert {(job.requester, job.service_class) for job in stage.worker.jobs} == {("ada", ServiceClass.FLEX)}
    assert len(stage.worker.jobs) == 2


async def test_lines_that_were_answered_but_not_stored_are_replayed(set_stage: SetStage) -> None:
    stage = await set_stage()
    id = (await create(stage, [line(number) for number in range(4)]))["id"]
    before = await results(stage.client, (await ended(stage.client, id))["output_file_id"])
    ran = len(stage.worker.jobs)
    await set_record(stage, id, state=BatchState.VALIDATING, **OPEN_FILE)
    after = await results(stage.client, (await ended(stage.client, id))["output_file_id"])
    assert len(stage.worker.jobs) == ran == 4
    assert {key: each["response"]["body"] for key, each in after.items()} == {
        key: each["response"]["body"] for key, each in before.items()
    }
    await eventually(lambda: len(stage.receipts) == 4)


async def test_a_line_that_a_gateway_abandons_costs_nothing(set_stage: SetStage) -> None:
    stage = await set_stage(start_and_wait)
    await create(stage, [line(1)])
    await eventually(lambda: any(each.unsaved_usage() for each in stage.gateway.billing._requests))
    await stage.gateway.idempotent.close()  # as at a shutdown
    await eventually(lambda: bool(stage.receipts))
    assert stage.receipts[0].usage == Usage(prompt_tokens=0)


async def test_lines_whose_results_are_stored_are_not_requested(set_stage: SetStage) -> None:
    stage = await set_stage()
    done = BatchProgress(done_to=2, done=[4], completed=3)
    output = "blob_" + "o" * 24
    id = await waiting_batch(
        stage, [line(number) for number in range(1, 6)], state=BatchState.IN_PROGRESS, total=5, output_file=output,
        error_file="blob_" + "e" * 24, progress=done,
    )  # fmt: skip
    batch = await ended(stage.client, id)
    assert batch["request_counts"] == {"total": 5, "completed": 5, "failed": 0}
    assert len(stage.worker.jobs) == 2


async def test_lines_that_have_not_begun_in_the_window_expire(set_stage: SetStage) -> None:
    stage = await set_stage()
    id = await waiting_batch(stage, [line(1), line(2)], expires=time.time() - 1)
    batch = await ended(stage.client, id)
    assert batch["status"] == "expired"
    assert batch["expired_at"] is not None
    errors = await results(stage.client, batch["error_file_id"])
    assert {each["error"]["code"] for each in errors.values()} == {"batch_expired"}
    assert batch["request_counts"] == {"total": 2, "completed": 0, "failed": 2}


@pytest.mark.parametrize("stopped", ["", "batch_expired", "batch_cancelled"])
async def test_a_batch_that_was_ending_ends_the_same_at_another_gateway(set_stage: SetStage, stopped: str) -> None:
    stage = await set_stage()
    id = await waiting_batch(stage, [line(1)], state=BatchState.FINALIZING, total=1, stopped=stopped)
    batch = await ended(stage.client, id)
    assert batch["status"] == {"": "completed", "batch_expired": "expired", "batch_cancelled": "cancelled"}[stopped]


async def test_a_batch_that_is_cancelled_before_its_validation_ends(set_stage: SetStage) -> None:
    stage = await set_stage()
    batch = await ended(stage.client, await waiting_batch(stage, [line(1)], state=BatchState.CANCELLING))
    assert (batch["status"], batch["output_file_id"], batch["error_file_id"]) == ("cancelled", None, None)
    assert stage.worker.jobs == []


async def test_running_lines_of_a_cancelled_batch_end(set_stage: SetStage) -> None:
    script, gate = gated()
    stage = await set_stage(script)
    id = (await create(stage, [line(number) for number in range(200)]))["id"]
    await eventually(lambda: len(stage.worker.jobs) > 0)
    assert (await stage.client.post(f"/v1/batches/{id}/cancel")).json()["status"] == "cancelling"
    store = batches_of(stage)
    lease = store.records[id].lease
    await eventually(lambda: store.records[id].lease > lease)  # the run has read the new state
    gate.set()
    batch = await ended(stage.client, id)
    assert batch["status"] == "cancelled"
    answers = await results(stage.client, batch["output_file_id"])
    errors = await results(stage.client, batch["error_file_id"])
    assert 0 < len(answers) < 200 == len(answers) + len(errors)
    assert {each["error"]["code"] for each in errors.values()} == {"batch_cancelled"}


async def test_no_more_lines_run_than_the_fleet_has_slots_for(set_stage: SetStage) -> None:
    script, gate = gated()
    stage = await set_stage(script)
    model = stage.gateway.models.find(MODEL)
    assert model is not None
    id = (await create(stage, [line(number) for number in range(model.capacity * 4)]))["id"]
    await eventually(lambda: len(stage.worker.jobs) > 0)
    await asyncio.sleep(0.5)
    assert len(stage.worker.jobs) <= 2 * model.capacity
    gate.set()
    assert (await ended(stage.client, id))["status"] == "completed"


async def test_a_long_list_of_errors_is_cut_off(set_stage: SetStage) -> None:
    stage = await set_stage()
    batch = await ended(stage.client, (await create(stage, b"no json\n" * 1000))["id"])
    assert len(batch["errors"]["data"]) == MAX_FAILURES


async def test_an_input_file_that_is_deleted_meanwhile_fails_the_batch(set_stage: SetStage) -> None:
    stage = await set_stage()
    id = await waiting_batch(stage, [line(1)], input_file="blob_" + "x" * 24)
    batch = await ended(stage.client, id)
    assert (batch["status"], batch["errors"]["data"][0]["code"]) == ("failed", "invalid_input_file")


async def test_embeddings_of_a_batch_are_flex_jobs_too(set_stage: SetStage) -> None:
    stage = await set_stage()
    async with AsyncExitStack() as stack:
        bus = Bus(MemoryTransport(stage.broker, "worker-2"))
        await bus.start()
        stack.push_async_callback(bus.close)
        worker = await stack.enter_async_context(
            ScriptedWorker(bus, "org/embedder", embed, "worker-2", dimensions=4).running()
        )
        await eventually(lambda: stage.gateway.models.find("org/embedder") is not None)
        request = {**line(1), "url": "/v1/embeddings", "body": {"model": "org/embedder", "input": "x"}}
        batch = await ended(stage.client, (await create(stage, [request], "/v1/embeddings"))["id"])
        assert batch["request_counts"]["completed"] == 1
        assert [job.service_class for job in worker.jobs] == [ServiceClass.FLEX]
        await eventually(lambda: len(stage.receipts) == 1)


@pytest.mark.parametrize("begun", [False, True])
async def test_a_batch_without_space_leaves_its_place_and_goes_on_later(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    monkeypatch.setattr(results_module, "RETRY_INTERVAL", 0.0)
    monkeypatch.setattr(batch_run_module, "SPACE_INTERVAL", 0.5)
    script, gate = gated()
    stage = await set_stage(script)
    quotas, store = stage.gateway.objects.quotas, batches_of(stage)
    if begun:
        id = (await create(stage, [line(1), line(2)]))["id"]
        await eventually(lambda: len(stage.worker.jobs) == 2)
    file = await upload(stage, jsonl([line(1), line(2)]))
    monkeypatch.setattr(quotas, "per_project", 10)
    gate.set()
    if not begun:
        body = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        id = (await stage.client.post("/v1/batches", json=body)).json()["id"]
    await eventually(lambda: 0 < store.records[id].lease - time.time() < 0.5)  # shorter than that of a gateway
    assert store.records[id].state is (BatchState.IN_PROGRESS if begun else BatchState.VALIDATING)
    assert store.records[id].progress == BatchProgress()
    monkeypatch.setattr(quotas, "per_project", 2**30)
    assert (await ended(stage.client, id))["request_counts"] == {"total": 2, "completed": 2, "failed": 0}
    assert len(stage.worker.jobs) == 2


async def test_a_batch_that_gives_way_goes_on_later_with_every_line_run_and_billed_once(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "MAX_BATCHES", 1)
    monkeypatch.setattr(runner_module, "TURN", 0.0)
    script, gate = gated()
    stage = await set_stage(script)
    store = batches_of(stage)
    continued = stage.gateway.metrics.takeovers.labels("batch", "continued")
    lines = [line(number) for number in range(60)]
    id = (await create(stage, lines))["id"]
    await eventually(lambda: len(stage.worker.jobs) > 0)
    # The other batch ends as soon as it has a place, because its project has no such input file.
    await store.insert(replace(store.records[id], id="batch_other", organisation="another", runner="", lease=0.0))
    stage.gateway.batch_created.set()
    await eventually(lambda: not store.records["batch_other"].state.is_open)
    before = len(stage.worker.jobs)
    assert before < len(lines)
    gate.set()
    batch = await ended(stage.client, id)
    assert (batch["status"], batch["request_counts"]["completed"]) == ("completed", len(lines))
    assert len(await results(stage.client, batch["output_file_id"])) == len(lines)
    assert len(stage.worker.jobs) == len(lines), "a line was run twice"
    await eventually(lambda: len(stage.receipts) == len(lines))
    assert continued._value.get() == 2.0, "the batch did not give way"


async def test_a_line_that_is_tried_again_and_again_does_not_keep_the_place_of_a_batch_that_gives_way(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "MAX_BATCHES", 1)
    monkeypatch.setattr(runner_module, "TURN", 0.0)
    tried: list[str] = []

    async def busy(_app: Any, _caller: Any, _path: str, key: str, _body: bytes) -> InternalAnswer:
        tried.append(key)
        return InternalAnswer(503, Headers(), b"{}")

    stage = await set_stage()
    store = batches_of(stage)
    continued = stage.gateway.metrics.takeovers.labels("batch", "continued")
    with monkeypatch.context() as patched:
        patched.setattr(batch_run_module, "request_internally", busy)
        id = (await create(stage, [line(1)]))["id"]
        await eventually(lambda: bool(tried))
        await store.insert(replace(store.records[id], id="batch_other", organisation="another", runner="", lease=0.0))
        stage.gateway.batch_created.set()
        await eventually(lambda: continued._value.get() == 2.0)  # the other batch, then the first one again
    assert (await ended(stage.client, id))["request_counts"] == {"total": 1, "completed": 1, "failed": 0}
    assert len(stage.worker.jobs) == 1
