"""Background responses: read, followed and cancelled at every gateway, and continued by another one."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import replace
from typing import Any

import openai
import pytest

from auth_billing.errors import InsufficientCredit
from router.messages import Finished, Job, Outcome, Usage
from stored_objects.project_documents.records import ProjectDocument
from stored_objects.project_documents.response_runs import ResponseRun
from tests.fakes.byte_counts import MIB
from tests.fakes.project_documents import DictResponseRuns
from tests.fakes.scripted_worker import ScriptedWorker, fail, say, start_and_wait, usage
from tests.gateway.conftest import MODEL, OTHER_KEY, Serve, SetStage, Stage, eventually, gateway_beside
from tests.gateway.http.routes.test_responses import EVENT, events, respond
from tests.gateway.http.routes.test_stored_responses import PROJECT, client, counted, stored


class Pausing:
    """Answers `total` tokens "0 1 … "; the first attempt stops after two, until it may go on or is cancelled."""

    def __init__(self, total: int = 5) -> None:
        self.total = total
        self.go = asyncio.Event()

    async def __call__(self, worker: ScriptedWorker, job: Job) -> None:
        attempt = uuid.uuid4().hex
        worker.begin(job, attempt)
        for position in range(job.delivered_positions(0), self.total):
            if position == 2 and not job.begun:
                cancelled = asyncio.create_task(worker.cancel_of(job.id).wait())
                going = asyncio.create_task(self.go.wait())
                await asyncio.wait({cancelled, going}, return_when=asyncio.FIRST_COMPLETED)
                if cancelled.done():
                    return
                cancelled.cancel()
            last = "stop" if position == self.total - 1 else None
            worker.send_token(job, attempt, position, f"{position} ", finish_reason=last)
        worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, self.total)))


def runs(stage: Stage) -> DictResponseRuns:
    found = stage.gateway.background.runs
    assert isinstance(found, DictResponseRuns)
    return found


async def until(http: Any, id: str, *wanted: str) -> dict[str, Any]:
    """Wait for a state of the response."""
    async with asyncio.timeout(20):
        while (body := (await http.get(f"/v1/responses/{id}")).json())["status"] not in wanted:
            await asyncio.sleep(0.01)
    found: dict[str, Any] = body
    return found


async def test_it_is_answered_at_once_and_goes_on(set_stage: SetStage) -> None:
    stage = await set_stage(script := Pausing())
    body = (await respond(stage, background=True)).json()
    assert (body["status"], body["background"], body["output"]) == ("queued", True, [])
    partial = await until(stage.client, body["id"], "in_progress")
    assert partial["output"][0]["status"] == "in_progress"
    unfinished = await respond(stage, previous_response_id=body["id"])
    assert (unfinished.status_code, unfinished.json()["error"]["param"]) == (400, "previous_response_id")
    script.go.set()
    ended = await until(stage.client, body["id"], "completed")
    assert ended["output"][0]["content"][0]["text"] == "0 1 2 3 4 "
    assert ended["usage"]["output_tokens"] == 5
    receipt = await stage.receipt()
    assert (receipt.outcome, receipt.usage.completion_tokens) == (Outcome.FINISHED, 5)
    assert runs(stage).receipts[body["id"]] == [receipt]
    await respond(stage, previous_response_id=body["id"])


async def test_its_stream_is_read_from_any_number_at_any_gateway(set_stage: SetStage) -> None:
    stage = await set_stage(script := Pausing())
    async with gateway_beside(stage) as (_, other):
        reading = asyncio.create_task(respond(stage, background=True, stream=True))
        await eventually(lambda: bool(runs(stage).runs))
        (id,) = runs(stage).runs
        path = f"/v1/responses/{id}?stream=true"
        following = [asyncio.create_task(http.get(path)) for http in (other, stage.client)]
        await until(other, id, "in_progress")
        script.go.set()
        texts = [answer.text for answer in await asyncio.gather(reading, *following)]
        whole = events(texts[0])
        for text in texts[1:]:
            assert events(text) == whole
        for event in whole:
            EVENT.validate_python(event)
        assert [event["type"] for event in whole[:3]] == [
            "response.created",
            "response.queued",
            "response.in_progress",
        ]
        assert whole[-1]["type"] == "response.completed"
        assert [event["sequence_number"] for event in whole] == list(range(len(whole)))
        for after in (0, 5, len(whole) - 1):
            rest = await other.get(f"{path}&starting_after={after}")
            assert events(rest.text) == whole[after + 1 :]


async def test_another_gateway_continues_after_what_readers_have(set_stage: SetStage) -> None:
    stage = await set_stage(Pausing())
    id = (await respond(stage, background=True)).json()["id"]
    async with gateway_beside(stage) as (_, other):
        await eventually(lambda: len(stage.gateway.background.running(id).logged) > 0)  # type: ignore[union-attr]
        reading = asyncio.create_task(stage.client.get(f"/v1/responses/{id}?stream=true"))
        await asyncio.sleep(0.1)
        found = runs(stage)
        found.runs[id] = replace(found.runs[id], runner="dead", lease=0.5)  # as if the first gateway had died
        ended = await until(other, id, "completed")
        whole = events((await reading).text)
    assert ended["output"][0]["content"][0]["text"] == "0 1 2 3 4 "
    deltas = [event["delta"] for event in whole if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == "0 1 2 3 4 "
    assert [event["sequence_number"] for event in whole] == list(range(len(whole)))
    first, second_job = stage.worker.jobs
    assert second_job.delivered == [[0, 1]]
    assert (first.sampling, first.prompt) == (second_job.sampling, second_job.prompt)
    assert second_job.id != first.id
    await eventually(lambda: len(stage.receipts) == 2)
    paid = {receipt.job: receipt.usage.completion_tokens for receipt in stage.receipts}
    assert paid == {first.id: 0, second_job.id: 5}


async def test_a_stopped_gateway_gives_its_runs_up(set_stage: SetStage) -> None:
    stage = await set_stage(Pausing())
    id = (await respond(stage, background=True)).json()["id"]
    await eventually(lambda: len(stage.gateway.background.running(id).logged) > 0)  # type: ignore[union-attr]
    await stage.gateway.background.close()
    async with gateway_beside(stage) as (_, other):
        ended = await until(other, id, "completed")
    assert ended["output"][0]["content"][0]["text"] == "0 1 2 3 4 "


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_cancel_ends_it_at_every_gateway(set_stage: SetStage, elsewhere: bool) -> None:
    stage = await set_stage(start_and_wait)
    id = (await respond(stage, background=True)).json()["id"]
    await until(stage.client, id, "in_progress")
    async with gateway_beside(stage) as (_, other):
        reading = asyncio.create_task(stage.client.get(f"/v1/responses/{id}?stream=true"))
        sdk = client(other if elsewhere else stage.client)
        cancelled = await sdk.responses.cancel(id)
        again = await sdk.responses.cancel(id)
    assert cancelled.status == again.status == "cancelled"
    assert cancelled.output_text == "0 1 "
    assert events((await reading).text)[-1]["type"] == "response.cancelled"
    await stage.worker.cancel_of(stage.worker.jobs[0].id).wait()
    receipt = await stage.receipt()
    assert receipt.usage == Usage(prompt_tokens=5, completion_tokens=2)


async def test_deleting_it_cancels_it_first(set_stage: SetStage) -> None:
    stage = await set_stage(start_and_wait)
    id = (await respond(stage, background=True)).json()["id"]
    await until(stage.client, id, "in_progress")
    assert (await stage.client.delete(f"/v1/responses/{id}")).status_code == 200
    assert runs(stage).responses.records == {}
    assert (await stage.receipt()).usage.completion_tokens == 2


async def test_failures_are_stored(set_stage: SetStage) -> None:
    from router.messages import FailureCode

    stage = await set_stage(fail(FailureCode.ENGINE_ERROR, after_tokens=True))
    id = (await respond(stage, background=True)).json()["id"]
    ended = await until(stage.client, id, "failed")
    assert ended["error"] == {"code": "server_error", "message": "No."}
    assert events((await stage.client.get(f"/v1/responses/{id}?stream=true")).text)[-1]["type"] == "response.failed"


async def test_what_can_t_be_paid_is_refused_and_not_stored(set_stage: SetStage) -> None:
    stage = await set_stage()
    stage.billing.refusal = InsufficientCredit(10, 1)
    refused = await respond(stage, background=True)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "insufficient_quota")
    assert runs(stage).responses.records == {}


async def test_only_background_responses_of_the_project_are_streamed_and_cancelled(set_stage: SetStage) -> None:
    stage = await set_stage(say("a"))
    id = (await respond(stage)).json()["id"]
    for answered in (
        await stage.client.get(f"/v1/responses/{id}?stream=true"),
        await stage.client.post(f"/v1/responses/{id}/cancel"),
        await respond(stage, background=True, store=False),
        await respond(stage, background=True, conversation="conv_1"),
        await stage.client.get(f"/v1/responses/{id}?starting_after=1"),
    ):
        assert answered.status_code == 400
    background = (await respond(stage, background=True)).json()["id"]
    others = client(stage.client, OTHER_KEY).responses
    with pytest.raises(openai.NotFoundError):
        await others.cancel(background)
    with pytest.raises(openai.NotFoundError):
        await others.retrieve(background, stream=True)
    await until(stage.client, background, "completed")


async def test_openai_s_client_goes_on_after_a_disconnect(serve: Serve) -> None:
    server = await serve(script := Pausing())
    seen: list[int] = []
    stream = await server.client.responses.create(model=MODEL, input="hi", background=True, stream=True)
    id = ""
    async for event in stream:
        seen.append(event.sequence_number)
        if event.type == "response.created":
            id = event.response.id
        if event.type == "response.output_text.delta":
            break
    await stream.close()
    script.go.set()
    text = ""
    async for event in await server.client.responses.retrieve(id, stream=True, starting_after=seen[-1]):
        seen.append(event.sequence_number)
        text += event.delta if event.type == "response.output_text.delta" else ""
    assert seen == list(range(len(seen)))
    assert (await server.client.responses.retrieve(id)).output_text.endswith(text)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_request_that_is_repeated_after_its_gateway_died_gets_the_same_response(
    set_stage: SetStage, streamed: bool
) -> None:
    stage = await set_stage(script := Pausing())
    key = {"idempotency-key": "key-1"}
    asked = {"model": MODEL, "input": "hi", "background": True, "stream": streamed}
    first = asyncio.create_task(stage.client.post("/v1/responses", json=asked, headers=key))
    await eventually(lambda: bool(runs(stage).runs))
    if not streamed:
        await first
    (id,) = runs(stage).runs
    ((record, kept),) = stage.idempotency.records.items()
    # As if the gateway had died after the response was stored, and before the answer was.
    stage.idempotency.records[record] = replace(kept, run_id="dead", lease=1.0, answer=None)
    async with gateway_beside(stage) as (_, other):
        script.go.set()
        repeated = await other.post("/v1/responses", json=asked, headers=key)
        begun = events(repeated.text)[0]["response"] if streamed else repeated.json()
        assert begun["id"] == id
        await until(other, id, "completed")
    assert list(runs(stage).runs) == [id]
    assert len(stage.worker.jobs) == 1
    assert (await stage.receipt()).usage.completion_tokens == 5
    await asyncio.gather(first, return_exceptions=True)


async def test_of_two_runs_of_a_request_one_begins_the_response(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await set_stage(start_and_wait)
    store = runs(stage)
    begin = store.begin

    async def late(document: ProjectDocument, run: ResponseRun) -> bool:
        await begin(document, replace(run, runner="gateway-2", lease=time.time() + 60))
        return await begin(document, run)

    monkeypatch.setattr(store, "begin", late)
    key = {"idempotency-key": "key-1"}
    asked = {"model": MODEL, "input": "hi", "background": True}
    refused = await stage.client.post("/v1/responses", json=asked, headers=key)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "idempotency_key_in_use")
    (id,) = store.runs
    repeated = await stage.client.post("/v1/responses", json=asked, headers=key)
    assert repeated.json()["id"] == id
    assert (await stage.receipt()).usage == Usage(prompt_tokens=0, completion_tokens=0)


async def test_a_full_project_generates_nothing_in_the_background(set_stage: SetStage) -> None:
    stage = await set_stage(Pausing())
    await stage.gateway.documents.quota.reserve(PROJECT, 100 * MIB)
    refused = await respond(stage, background=True)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "insufficient_quota")
    assert refused.headers["x-should-retry"] == "false"
    assert stage.worker.jobs == []
    assert stored(stage).records == {}


async def test_a_response_and_its_log_are_counted_until_they_are_deleted(set_stage: SetStage) -> None:
    stage = await set_stage(script := Pausing())
    script.go.set()
    body = (await respond(stage, background=True)).json()
    await until(stage.client, body["id"], "completed")
    records = stored(stage).records
    size = sum(each.size for each in records.values())
    assert len(records) > 1
    assert await counted(stage) == sum(stored(stage).sizes.values()) == size
    await stage.client.delete(f"/v1/responses/{body['id']}")
    assert await counted(stage) == 0


async def test_a_response_that_is_deleted_before_its_end_is_not_counted(set_stage: SetStage) -> None:
    stage = await set_stage(Pausing())
    body = (await respond(stage, background=True)).json()
    await until(stage.client, body["id"], "in_progress")
    await stage.client.delete(f"/v1/responses/{body['id']}")
    await stage.receipt()
    await eventually(lambda: stage.gateway.background.running(body["id"]) is None)
    assert await counted(stage) == sum(stored(stage).sizes.values())


async def test_a_response_that_is_not_begun_is_not_counted(set_stage: SetStage) -> None:
    stage = await set_stage(Pausing())
    stage.billing.refusal = InsufficientCredit(0, 0)
    assert (await respond(stage, background=True)).status_code == 429
    assert await counted(stage) == 0
