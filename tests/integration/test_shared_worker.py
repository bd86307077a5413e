"""A worker of two models answers searches as two workers do, also when it is killed, and each search is billed once.

`HEADRACE_TEST_KILLS=20` kills the worker that has the search 20 times, and 20 times its engine process alone, at other
moments of the steps.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fakes.tiny_scorers import save_chat_model, save_step_model
from tests.integration.worker_processes import WorkerProcesses, worker_processes

KILLS = int(os.environ.get("HEADRACE_TEST_KILLS", "1"))
"""Kills of workers, and of engine processes."""
STEPS = 6
STEP_SECONDS = 0.3
"""About how long a step takes."""
GENERATOR, VERIFIER = "tiny-generator", "tiny-verifier"
BODY = {
    "model": GENERATOR,
    "messages": [{"role": "user", "content": "What is 12 + 30?"}],
    "max_tokens": 240,
    "temperature": 0.9,
    "seed": 5,
    "ignore_eos": True,
    "test_time_compute": {
        "method": "beam_search",
        "n": 4,
        "expansions": 4,
        "max_steps": STEPS,
        "step_tokens": 40,
        "verifier": VERIFIER,
        "budget_tokens": 60000,
    },
    "stream": True,
    "stream_options": {"include_usage": True},
}

pytestmark = [pytest.mark.rabbitmq, pytest.mark.timeout(300 + 60 * KILLS)]


@dataclass
class Seen:
    """What a client got: the job, the text, the steps as they ended, and those that have begun."""

    id: str = ""
    text: str = ""
    steps: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)

    def read(self, line: str) -> None:
        """Read a line of the stream."""
        if not line.startswith("data: {"):
            return
        event = json.loads(line[6:])
        assert "error" not in event, event
        self.id, self.usage = event["id"], event["usage"] or self.usage
        for choice in event["choices"]:
            self.text += choice["delta"].get("content") or ""
            self.steps += choice["delta"].get("steps", ())

    @property
    def ended(self) -> list[dict[str, Any]]:
        """What the ended steps found."""
        return [step["data"] for step in self.steps if step["state"] == "done"]


@dataclass(frozen=True)
class Folders:
    """The folders of the two models."""

    generator: Path
    verifier: Path

    @property
    def shared(self) -> dict[str, str]:
        """Settings of a worker of both models, in whose cache the paths of few searches have room."""
        return {
            "HEADRACE_VERIFIER": str(self.verifier),
            "HEADRACE_VERIFIER_NAME": VERIFIER,
            "HEADRACE_KV_CACHE_MEMORY": "8MiB",
        }


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    made = Folders(tmp_path_factory.mktemp("generator"), tmp_path_factory.mktemp("verifier"))
    save_chat_model(made.generator)
    save_step_model(made.verifier, "Qwen2ForProcessRewardModel")
    return made


@asynccontextmanager
async def workers(url: str, folders: Folders) -> AsyncIterator[WorkerProcesses]:
    settings = {"HEADRACE_SEARCH": "true", "HEADRACE_DTYPE": "float32", "HEADRACE_QUANTIZATION": "none"}
    async with worker_processes(url, folders.generator, GENERATOR, settings) as running:
        yield running


async def search(running: WorkerProcesses, seen: Seen) -> Seen:
    async with running.http.stream("POST", "/chat/completions", json=BODY) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            seen.read(line)
    return seen


def compare(seen: Seen, expected: Seen) -> None:
    """Compare two searches: all is equal but cached tokens, and the rounding of scores by how they were batched."""
    assert len(seen.ended) == len(expected.ended) == STEPS
    for ours, theirs in zip(deepcopy(seen.ended), deepcopy(expected.ended), strict=True):
        scores = [[[*path.pop("step_scores"), path.pop("score")] for path in each["paths"]] for each in (ours, theirs)]
        assert ours == theirs
        assert [value for path in scores[0] for value in path] == pytest.approx(
            [value for path in scores[1] for value in path], abs=1e-5
        )
    assert seen.text == expected.text
    for each in ("completion_tokens", "prompt_tokens", "parts"):
        assert seen.usage[each] == expected.usage[each]


async def worker_after_steps(running: WorkerProcesses, count: int) -> str:
    """Wait until `count` steps of the only search have ended; return the worker that runs it."""
    async with asyncio.timeout(60):
        while True:
            for job in running.gateway.inbox._jobs.values():
                if len(job.recovery.output._choices[0].steps) == count and job.recovery.worker_id:
                    return job.recovery.worker_id
            await asyncio.sleep(0.002)


async def start_shared(running: WorkerProcesses, folders: Folders, name: str) -> None:
    await running.start_worker(name, folders.shared, serves=[f"{name}-verifier"])


async def test_a_shared_worker_gives_the_answer_of_two_workers(rabbitmq_url: str, folders: Folders) -> None:
    async with workers(rabbitmq_url, folders) as running:
        verifier = {"HEADRACE_MODEL": str(folders.verifier), "HEADRACE_SERVED_MODEL_NAME": VERIFIER}
        await running.start_worker("generator-1")
        await running.start_worker("verifier-1", {**verifier, "HEADRACE_SEARCH": "false"})
        expected = await search(running, Seen())
    async with workers(rabbitmq_url, folders) as running:
        await start_shared(running, folders, "shared-1")
        seen = await search(running, Seen())
    compare(seen, expected)


def kill_engine(worker: asyncio.subprocess.Process) -> None:
    """Kill the engine process of a worker, which starts it again."""
    [engine] = [each for each in psutil.Process(worker.pid).children() if computes(each)]
    engine.kill()


def computes(process: psutil.Process) -> bool:
    """Whether a process has loaded PyTorch, which a worker's engine process alone does."""
    return any("libtorch" in each.path for each in process.memory_maps())


async def test_searches_of_killed_shared_workers_and_engine_processes_go_on_and_are_billed_once(
    rabbitmq_url: str, folders: Folders
) -> None:
    async with workers(rabbitmq_url, folders) as running:
        for name in ("shared-1", "shared-2"):
            await start_shared(running, folders, name)
        answers = [expected := await search(running, Seen())]
        moments = random.Random(1)
        for victim, number in product(("worker", "engine"), range(KILLS)):
            searching, step = asyncio.create_task(search(running, Seen())), (2 + number) % STEPS
            name = await worker_after_steps(running, step)
            await asyncio.sleep(moments.uniform(0, STEP_SECONDS) if number >= STEPS else 0)
            if victim == "worker":
                running.kill(name)
                await running.workers.pop(name).wait()
                await start_shared(running, folders, f"shared-{3 + number}")
            else:
                kill_engine(running.workers[name])
            answers.append(await asyncio.wait_for(searching, 120))
            compare(answers[-1], expected)
            print(f"killed the {victim} in step {step}: the same answer")
        async with asyncio.timeout(20):
            while len(running.receipts()) < len(answers):
                await asyncio.sleep(0.01)
        receipts = running.receipts()
        assert [receipt.job for receipt in receipts] == [seen.id for seen in answers]
        assert [receipt.parts for receipt in receipts] == [receipts[0].parts] * len(receipts)
