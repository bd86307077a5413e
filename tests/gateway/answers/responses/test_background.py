"""Runs that a gateway finds abandoned: continued, or ended where they can't be; and runs that it loses."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from auth_billing.errors import InsufficientCredit, StoreUnavailable
from gateway.answers.responses.run_log import encoded
from gateway.errors import PromptBlocked, RequestTooLarge
from gateway.jobs.generation import Generation
from stored_objects.project_documents.response_runs import LogGroup
from tests.fakes.project_documents import DictResponseRuns
from tests.fakes.scripted_worker import count, start_and_wait
from tests.gateway.answers.responses.client import ID, deltas
from tests.gateway.answers.responses.runs import abandon
from tests.gateway.conftest import SetStage, Stage, eventually
from tests.gateway.http.routes.test_background_responses import until
from tests.gateway.http.routes.test_responses import respond


def runs(stage: Stage) -> DictResponseRuns:
    found = stage.gateway.background.runs
    assert isinstance(found, DictResponseRuns)
    return found


def takeovers(stage: Stage) -> dict[str, float]:
    """Claimed runs by outcome, without the outcomes that none had."""
    (metric,) = stage.gateway.metrics.takeovers.collect()
    return {each.labels["outcome"]: each.value for each in metric.samples if each.name.endswith("_total")}


async def test_an_abandoned_run_is_continued_after_its_log(set_stage: SetStage) -> None:
    stage = await set_stage(count)
    first = await abandon(stage.gateway, deltas({"text": "0 "}, {"text": "1 "}, finish=None))
    ended = await until(stage.client, ID, "completed", "incomplete")
    assert ended["output"][0]["content"][0]["text"].startswith("0 1 2 ")
    (job,) = stage.worker.jobs
    assert (job.delivered, job.prompt, job.sampling) == ([[0, 1]], first.prompt, first.sampling)
    assert job.id == f"{ID}-1"
    assert takeovers(stage) == {"continued": 1}
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
    await abandon(stage.gateway, deltas({"text": "0 "}, finish=None), **fields)
    ended = await until(stage.client, ID, status)
    assert ended["output"][0]["content"][0]["text"] == "0 "
    assert ended["output"][0]["status"] == "incomplete"
    assert (ended["error"] or {}).get("message") == message
    assert stage.worker.jobs == []
    assert takeovers(stage) == {"ended": 1}


async def test_a_run_that_can_not_be_paid_fails(set_stage: SetStage) -> None:
    stage = await set_stage(count)
    stage.billing.refusal = InsufficientCredit(10, 1)
    await abandon(stage.gateway, deltas({"text": "0 "}, finish=None))
    ended = await until(stage.client, ID, "failed")
    assert ended["error"]["code"] == "rate_limit_exceeded"
    assert "credit" in ended["error"]["message"]
    assert takeovers(stage) == {"ended": 1}
    assert stage.worker.jobs == []


@pytest.mark.parametrize(
    ("refusal", "message"), [(PromptBlocked(["violence"]), "moderation"), (RequestTooLarge(), "too large")]
)
async def test_a_run_that_is_refused_for_good_fails(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch, refusal: Exception, message: str
) -> None:
    stage = await set_stage(count)

    async def publish(_generation: Generation, _headers: Mapping[str, str]) -> None:
        raise refusal

    monkeypatch.setattr(Generation, "publish", publish)
    await abandon(stage.gateway, deltas({"text": "0 "}, finish=None))
    ended = await until(stage.client, ID, "failed")
    assert message in ended["error"]["message"]
    assert ended["output"][0]["content"][0]["text"] == "0 "
    assert takeovers(stage) == {"ended": 1}


async def test_a_run_that_can_not_be_continued_yet_is_continued_later(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await set_stage(count)
    store, failures = runs(stage), [StoreUnavailable("away")]
    write = store.append

    async def append(groups: Sequence[LogGroup]) -> list[bool]:
        if failures and groups[0].content == encoded([]):  # the successor's
            store.runs[ID] = replace(store.runs[ID], lease=1.0)  # as if its lease had expired
            raise failures.pop()
        return await write(groups)

    monkeypatch.setattr(store, "append", append)
    await abandon(stage.gateway, deltas({"text": "0 "}, finish=None))
    await until(stage.client, ID, "completed", "incomplete")
    assert takeovers(stage) == {"postponed": 1, "continued": 1}


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
