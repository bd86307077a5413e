"""Scores from end to end: HTTP, gateway, RabbitMQ, workers as processes, of which one is killed."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from router.messages import Outcome, Usage
from tests.fakes.tiny_scorers import save_pair_model, save_step_model
from tests.gateway.conftest import eventually
from tests.inference_worker.scoring.scores import load
from tests.integration.worker_processes import WorkerProcesses, worker_processes

MODEL = "judge"
QUESTION = {"role": "user", "content": "What is 2 + 2 * 3?"}

pytestmark = [pytest.mark.rabbitmq, pytest.mark.timeout(300)]


async def post(platform: WorkerProcesses, path: str, **fields: Any) -> dict[str, Any]:
    response = await platform.http.post(path, json={"model": MODEL, **fields})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_a_killed_workers_scores_come_from_another_and_are_billed_once(rabbitmq_url: str, tmp_path: Path) -> None:
    _, tokenizer = save_pair_model(tmp_path, num_hidden_layers=12)
    query = "where is lodz?"
    documents = [f"document {number} " + "word " * (number % 20) for number in range(2000)]
    tokens = sum(len(tokenizer.encode(query, document).ids) for document in documents)
    reference = await load(tmp_path)([query], [*documents])
    async with worker_processes(rabbitmq_url, tmp_path, MODEL) as platform:
        for name in ("worker-1", "worker-2"):
            await platform.start_worker(name)
        request = asyncio.create_task(post(platform, "score", text_1=query, text_2=documents))
        killed = await platform.worker_amid_job(len(documents))
        platform.kill(killed)
        answer = await request
        assert [each["index"] for each in answer["data"]] == list(range(len(documents)))
        pairs = zip(answer["data"], reference, strict=True)
        assert all(math.isclose(one["score"], other[0], abs_tol=1e-5) for one, other in pairs)
        assert answer["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
        await eventually(lambda: len(platform.receipts()) == len(platform.records()) == 1)
        used = Usage(prompt_tokens=tokens)
        assert [(each.usage, each.outcome) for each in platform.receipts()] == [(used, Outcome.FINISHED)]
        assert [(each.usage, each.worker == killed) for each in platform.records()] == [(used, False)]

        left = asyncio.create_task(post(platform, "rerank", query=query, documents=documents))
        await platform.worker_amid_job(len(documents))
        left.cancel()
        await eventually(lambda: platform.records()[-1].outcome is Outcome.CANCELLED)
        assert platform.records()[-1].usage.prompt_tokens < tokens

        best = max(range(5), key=lambda index: reference[index][0])
        ranked = await post(platform, "rerank", query=query, documents=documents[:5], top_n=1)
        assert [(each["index"], each["document"]["text"]) for each in ranked["results"]] == [(best, documents[best])]


async def test_steps_of_answers_and_refusals(rabbitmq_url: str, tmp_path: Path) -> None:
    save_step_model(tmp_path, "Qwen2ForProcessRewardModel")
    reference = load(tmp_path)
    steps = ["Multiply first: 6.", "2 + 6 = 8."]
    expected = await reference([[QUESTION]], [steps, "8"])
    async with worker_processes(rabbitmq_url, tmp_path, MODEL) as platform:
        await platform.start_worker("worker-1")
        answer = await post(platform, "score", messages=[QUESTION], candidates=["\n\n".join(steps), "8"])
        for one, other in zip(answer["data"], expected, strict=True):
            assert one["step_scores"] == pytest.approx(other, abs=1e-6)
            assert one["score"] == one["step_scores"][-1]
        listed = (await platform.http.get("models")).json()["data"]
        assert [each["task"] for each in listed] == ["score"]
        for path, fields, param in (
            ("score", {"messages": [QUESTION], "candidates": ["word " * 2000]}, "candidates"),
            ("rerank", {"query": "q", "documents": ["a"], "truncate_prompt_tokens": 9}, "truncate_prompt_tokens"),
            ("chat/completions", {"messages": [QUESTION]}, "model"),
        ):
            refused = await platform.http.post(path, json={"model": MODEL, **fields})
            assert refused.status_code == 400, path
            assert refused.json()["error"]["param"] == param
        await eventually(lambda: len(platform.records()) == 3)
        assert platform.records()[0].usage == platform.receipts()[0].usage
        assert answer["usage"]["total_tokens"] == platform.receipts()[0].usage.prompt_tokens
