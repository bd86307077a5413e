"""`/v1/score` and `/v1/rerank`: one job per request, one score per candidate, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from gateway.openai.scores import Ranking, ScoreList
from router.bus import Bus
from router.messages import FailureCode, ScorePrompt, Task
from router.transport.memory import MemoryTransport
from tests.fakes.scripted_worker import ScriptedWorker, fail, never, score
from tests.gateway.conftest import MODEL, SetStage, Stage, eventually

SCORER = "org/scorer"
QUESTION = {"role": "user", "content": "2 + 2?"}


@dataclass
class Scoring:
    """A stage with a worker that scores beside the one that generates."""

    stage: Stage
    worker: ScriptedWorker

    async def __call__(self, path: str = "/v1/score", **fields: Any) -> httpx.Response:
        return await self.stage.client.post(path, json={"model": SCORER, **fields})


@pytest.fixture
async def scoring(set_stage: SetStage) -> AsyncIterator[Scoring]:
    stage = await set_stage()
    async with AsyncExitStack() as stack:
        bus = Bus(MemoryTransport(stage.broker, "worker-2"))
        await bus.start()
        stack.push_async_callback(bus.close)
        worker = ScriptedWorker(bus, SCORER, score, "worker-2", task=Task.SCORE)
        await stack.enter_async_context(worker.running())
        await eventually(lambda: stage.gateway.models.find(SCORER) is not None)
        yield Scoring(stage, worker)


@pytest.mark.parametrize(
    ("fields", "contexts", "candidates"),
    [
        ({"text_1": "q", "text_2": "a"}, ["q"], ["a"]),
        ({"text_1": "q", "text_2": ["a", "bc"]}, ["q"], ["a", "bc"]),
        ({"text_1": ["q", "r"], "text_2": ["a", "bc"]}, ["q", "r"], ["a", "bc"]),
        ({"messages": [QUESTION, {"role": "assistant", "content": "4"}]}, [[QUESTION]], ["4"]),
        ({"messages": [QUESTION], "candidates": ["4", "12"]}, [[QUESTION]], ["4", "12"]),
    ],
)
async def test_the_forms_of_a_request(scoring: Scoring, fields: Any, contexts: Any, candidates: Any) -> None:
    response = await scoring(**fields, user="user-1")
    assert response.status_code == 200, response.text
    body = response.json()
    ScoreList.model_validate(body)
    (job,) = scoring.worker.jobs
    assert isinstance(job.prompt, ScorePrompt)
    assert (job.prompt.contexts, job.prompt.candidates) == (contexts, candidates)
    assert (job.tenant, job.cache_salt) == ("tenant-1", "salt-1")
    assert body["id"] == job.id
    assert (body["object"], body["model"]) == ("list", SCORER)
    assert body["data"] == [
        {"index": index, "object": "score", "score": len(each) / 10} for index, each in enumerate(candidates)
    ]
    assert body["usage"] == {"prompt_tokens": 3 * len(candidates), "total_tokens": 3 * len(candidates)}


async def test_steps_have_scores_of_their_own(scoring: Scoring) -> None:
    answer = {"role": "assistant", "steps": ["Add.", "4"]}
    body = (await scoring(messages=[QUESTION, answer])).json()
    assert body["data"] == [{"index": 0, "object": "score", "score": 0.1, "step_scores": [0.4, 0.1]}]
    fields: dict[str, Any] = {"separator": "\n", "use_activation": False, "truncate_prompt_tokens": -1}
    body = (await scoring(messages=[QUESTION], candidates=[["Add.", "4"], ["5"]], **fields)).json()
    assert [each["step_scores"] for each in body["data"]] == [[0.4, 0.1], [0.1]]
    job = scoring.worker.jobs[-1]
    assert isinstance(job.prompt, ScorePrompt)
    assert (job.prompt.separator, job.prompt.raw, job.text.truncate_prompt_tokens) == ("\n", True, -1)


async def test_the_most_relevant_documents_come_first(scoring: Scoring) -> None:
    documents = ["aa", {"text": "aaaa"}, "bb", "a"]
    body = (await scoring("/v1/rerank", query="q", documents=documents)).json()
    Ranking.model_validate(body)
    assert [(each["index"], each["relevance_score"]) for each in body["results"]] == [
        (1, 0.4),
        (0, 0.2),
        (2, 0.2),
        (3, 0.1),
    ]
    assert body["results"][0]["document"] == {"text": "aaaa"}
    assert body["usage"] == {"prompt_tokens": 12, "total_tokens": 12}
    body = (await scoring("/v1/rerank", query="q", documents=documents, top_n=1, return_documents=False)).json()
    assert body["results"] == [{"index": 1, "relevance_score": 0.4}]


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("/v1/score", {"text_1": "q"}, "text_2"),
        ("/v1/score", {"text_1": "q", "text_2": ["a"] * 2049}, "text_2"),
        ("/v1/score", {"text_1": "q", "text_2": "x" * 10_000}, "text_2"),
        ("/v1/score", {"messages": [QUESTION]}, "messages"),
        ("/v1/score", {"messages": [QUESTION, {"role": "assistant", "content": "x" * 10_000}]}, "messages"),
        ("/v1/score", {"messages": [{"role": "user", "content": "x" * 10_000}], "candidates": ["a"]}, "candidates"),
        ("/v1/rerank", {"query": "q", "documents": []}, "documents"),
        ("/v1/rerank", {"query": "q", "documents": ["a", "x" * 10_000]}, "documents"),
        ("/v1/rerank", {"query": "q", "documents": ["a"], "truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
    ],
)
async def test_the_field_at_fault_is_named(scoring: Scoring, path: str, fields: Any, param: str) -> None:
    response = await scoring(path, **fields)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
    assert scoring.worker.jobs == []


async def test_models_of_other_tasks_are_refused(scoring: Scoring) -> None:
    other = await scoring(model=MODEL, text_1="q", text_2="a")
    assert other.status_code == 400
    assert "/v1/chat/completions" in other.json()["error"]["message"]
    body = {"model": SCORER, "messages": [QUESTION]}
    chat = await scoring.stage.client.post("/v1/chat/completions", json=body)
    assert chat.status_code == 400
    assert "/v1/score or /v1/rerank" in chat.json()["error"]["message"]
    assert (await scoring.stage.client.get(f"/v1/models/{SCORER}")).json()["task"] == "score"


async def test_a_rejection_of_the_worker(scoring: Scoring) -> None:
    scoring.worker.script = fail(FailureCode.CONTEXT_LENGTH_EXCEEDED, "Too long.")
    response = await scoring(text_1="q", text_2="a")
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "context_length_exceeded"


async def test_equal_keyed_requests_are_scored_once(scoring: Scoring) -> None:
    body = {"model": SCORER, "query": "q", "documents": ["a"]}
    headers = {"Idempotency-Key": "score-once"}
    first, second = [await scoring.stage.client.post("/v1/rerank", json=body, headers=headers) for _ in range(2)]
    assert first.json() == second.json()
    assert len(scoring.worker.jobs) == 1


async def test_a_request_that_ran_out_of_time_is_cancelled(set_stage: SetStage) -> None:
    stage = await set_stage(max_request_seconds=1.0)
    async with AsyncExitStack() as stack:
        bus = Bus(MemoryTransport(stage.broker, "worker-2"))
        await bus.start()
        stack.push_async_callback(bus.close)
        worker = ScriptedWorker(bus, SCORER, never, "worker-2", task=Task.SCORE)
        await stack.enter_async_context(worker.running())
        await eventually(lambda: stage.gateway.models.find(SCORER) is not None)
        response = await stage.client.post("/v1/score", json={"model": SCORER, "text_1": "q", "text_2": "a"})
        assert response.status_code == 408
        await asyncio.wait_for(worker.cancel_of(worker.jobs[0].id).wait(), 30)
