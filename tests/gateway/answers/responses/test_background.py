"""Runs that a gateway finds abandoned: continued, or ended where they can't be; and runs that it loses."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from auth_billing.errors import InsufficientCredit
from gateway.answers.responses.background_run import encoded
from gateway.answers.responses.response_object import ResponseObject
from gateway.openai.responses.request import ResponseRequest
from router.messages import ChatPrompt, Delta, Job, ServiceClass
from router.messages.codec import encode
from stored_objects.documents.records import ProjectOwner
from stored_objects.documents.runs import LogGroup, ResponseRun
from stored_objects.responses.responses import StoredResponse, new_document
from tests.fakes.jobs import make_job
from tests.fakes.project_documents import DictResponseRuns
from tests.fakes.scripted_worker import count, start_and_wait
from tests.gateway.answers.responses.client import ID, deltas
from tests.gateway.conftest import MODEL, SetStage, Stage, eventually
from tests.gateway.http.routes.test_background_responses import until
from tests.gateway.http.routes.test_responses import respond

OWNER = ProjectOwner("tenant-1", "project-1")


def runs(stage: Stage) -> DictResponseRuns:
    found = stage.gateway.background.runs
    assert isinstance(found, DictResponseRuns)
    return found


async def abandon(stage: Stage, *log: list[Delta], deadline: float = 60.0, **run: Any) -> Job:
    """Store the run of a process that has died with these groups in its log; return its first job."""
    body = ResponseRequest.parse({"model": MODEL, "input": "hi", "background": True, "max_output_tokens": 4})
    response = ResponseObject.of(ID, body, model=MODEL, service_class=ServiceClass.DEFAULT).in_state("queued")
    content = await new_document(StoredResponse(response, []))
    (document,) = stage.gateway.documents.responses.created(OWNER, content)
    now = time.time()
    prompt = ChatPrompt(messages=[{"role": "user", "content": "hi"}])
    job = make_job(ID, model=MODEL, tenant="tenant-1", created=now, deadline=now + deadline, prompt=prompt)
    store = runs(stage)
    await store.append(
        [
            LogGroup(ID, OWNER, number, encoded(group), document.created, document.expires)
            for number, group in enumerate(log)
        ]
    )
    await store.begin(document, ResponseRun("dead", 1.0, encode(job), "key-1", "", **run))
    return job


async def test_an_abandoned_run_is_continued_after_its_log(set_stage: SetStage) -> None:
    stage = await set_stage(count)
    first = await abandon(stage, deltas({"text": "0 "}, {"text": "1 "}, finish=None))
    ended = await until(stage.client, ID, "completed", "incomplete")
    assert ended["output"][0]["content"][0]["text"].startswith("0 1 2 ")
    (job,) = stage.worker.jobs
    assert (job.delivered, job.prompt, job.sampling) == ([[0, 1]], first.prompt, first.sampling)
    assert job.id == f"{ID}-1"
    await eventually(lambda: runs(stage).receipts[ID] == stage.receipts)


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"cancelled": True}, "cancelled", None),
        ({"deadline": -1.0}, "failed", "The request was not finished before its deadline."),
    ],
)
async def test_a_run_that_is_not_to_go_on_ends_with_what_its_log_has(
    set_stage: SetStage, fields: dict[str, Any], status: str, message: str | None
) -> None:
    stage = await set_stage(count)
    await abandon(stage, deltas({"text": "0 "}, finish=None), **fields)
    ended = await until(stage.client, ID, status)
    assert ended["output"][0]["content"][0]["text"] == "0 "
    assert ended["output"][0]["status"] == "incomplete"
    assert (ended["error"] or {}).get("message") == message
    assert stage.worker.jobs == []


async def test_a_run_that_can_not_be_paid_fails(set_stage: SetStage) -> None:
    stage = await set_stage(count)
    stage.billing.refusal = InsufficientCredit(10, 1)
    await abandon(stage, deltas({"text": "0 "}, finish=None))
    ended = await until(stage.client, ID, "failed")
    assert ended["error"]["code"] == "rate_limit_exceeded"
    assert "credit" in ended["error"]["message"]
    assert stage.worker.jobs == []


async def test_a_run_that_another_process_has_is_stopped_and_not_ended(set_stage: SetStage) -> None:
    stage = await set_stage(start_and_wait)
    id = (await respond(stage, background=True)).json()["id"]
    await until(stage.client, id, "in_progress")
    store = runs(stage)
    store.runs[id] = replace(store.runs[id], runner="gateway-2", lease=time.time() + 60.0)
    await stage.worker.cancel_of(stage.worker.jobs[0].id).wait()
    await eventually(lambda: stage.gateway.background.running(id) is None)
    assert store.runs[id].lease > 0
    assert id not in store.receipts
