"""A search gives the same answer, billed once, when processes of workers or of the verifier are killed in any step.

Over RabbitMQ and the real store: `kill -9` of the worker that has the job, or of the only verifier, once in each step;
`HEADRACE_TEST_KILLS=20` kills each of the two 20 times, at other moments of the steps. Beam search by likelihood has no
verifier, so there only workers are killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.openai.test_time_compute import RELEASED_TOKENS
from infra.home.process_records import kill_group
from router.transport.base import Transport
from router.transport.rabbitmq import RabbitMQTransport
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.fleet import MODEL, until
from tests.fakes.paying_platform import PayingPlatform
from tests.fakes.search_workers import SEPARATOR, VERIFIER

STEPS = 4
KILLS = int(os.environ.get("HEADRACE_TEST_KILLS", STEPS))
"""Kills of each victim, at least one in each step."""
STEP_TIMES = {"search": 0.03, "verifier": 0.3}
BODY = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "count"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}


@dataclass(frozen=True)
class Case:
    """A search of `STEPS` steps, and the kinds of workers that are killed during it."""

    fields: dict[str, Any]
    victims: tuple[str, ...]
    step_tokens: int

    @property
    def step_seconds(self) -> float:
        """About how long a step takes."""
        return self.step_tokens * STEP_TIMES["search"] + STEP_TIMES["verifier"] * ("verifier" in self.victims)


BY_STEPS = Case(
    {
        "max_tokens": 40,
        "seed": 11,
        "test_time_compute": {
            "method": "beam_search",
            "n": 2,
            "expansions": 3,
            "max_steps": STEPS,
            "step_tokens": 12,
            "separator": SEPARATOR,
            "verifier": VERIFIER,
        },
    },
    ("search", "verifier"),
    12,
)
BY_LIKELIHOOD = Case(
    {"max_tokens": 110, "temperature": 0, "n": 2, "use_beam_search": True, "best_of": 3, "early_stopping": "never"},
    ("search",),
    RELEASED_TOKENS,
)

pytestmark = [pytest.mark.rabbitmq, pytest.mark.store, pytest.mark.timeout(300 + 60 * KILLS)]


@dataclass
class Seen:
    """What a client got."""

    id: str = ""
    texts: dict[int, str] = field(default_factory=dict)
    """By choice."""
    steps: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    finish_reasons: dict[int, str] = field(default_factory=dict)
    """By choice."""
    ended: bool = False

    def read(self, line: str) -> None:
        """Read a line of the stream."""
        if line == "data: [DONE]":
            self.ended = True
        elif line.startswith("data: "):
            event = json.loads(line[6:])
            assert "error" not in event, event
            self.id, self.usage = event["id"], event["usage"] or self.usage
            for choice in event["choices"]:
                index, delta = choice["index"], choice["delta"]
                self.texts[index] = self.texts.get(index, "") + (delta.get("content") or "")
                self.steps += delta.get("steps", ())
                if choice["finish_reason"]:
                    self.finish_reasons[index] = choice["finish_reason"]

    @property
    def found(self) -> list[Any]:
        """What each ended step found."""
        return [step["data"] for step in self.steps if step["state"] == "done"]

    def running(self, number: int) -> bool:
        """Whether a step has begun."""
        return any(step["number"] == number for step in self.steps)


class Processes:
    """Processes of workers by name."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._numbers = count(1)
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, kind: str) -> str:
        """Start a worker; return its name."""
        name = f"{kind}-{next(self._numbers)}"
        options = ["--amqp-url", self._url, "--id", name, "--step-time", str(STEP_TIMES[kind])]
        self._processes[name] = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.fakes.search_workers", kind, *options, start_new_session=True, env=os.environ
        )
        return name

    def names(self, kind: str) -> list[str]:
        """The running workers of a kind."""
        return [name for name in self._processes if name.startswith(kind)]

    async def kill(self, name: str) -> None:
        """Kill a worker at once."""
        process = self._processes.pop(name)
        kill_group(process.pid)
        await process.wait()

    async def end(self) -> None:
        for name in list(self._processes):
            await self.kill(name)


@asynccontextmanager
async def stage(rabbitmq_url: str, database_url: str, home: Path) -> AsyncIterator[tuple[PayingPlatform, Processes]]:
    """A gateway, two workers that search, and a verifier."""

    def make_transport(name: str) -> Transport:
        return RabbitMQTransport(rabbitmq_url, name, publish_timeout=10)

    processes = Processes(rabbitmq_url)
    async with AsyncExitStack() as stack:
        platform = await stack.enter_async_context(PayingPlatform(make_transport, database_url, home))
        stack.push_async_callback(processes.end)
        for kind in ("search", "search", "verifier"):
            await processes.start(kind)
        await platform.start(gateways=1, workers=0, make_engine=CountingEngine)
        models = platform.gateways[0].models
        await until(lambda: models.find(VERIFIER) and len(models.workers()) == 3)
        yield platform, processes


@pytest.mark.parametrize("case", [BY_STEPS, BY_LIKELIHOOD], ids=["beam_search", "likelihood_beam_search"])
async def test_every_search_gives_the_same_answer_billed_once(
    rabbitmq_url: str, database_url: str, tmp_path: Path, case: Case
) -> None:
    async with stage(rabbitmq_url, database_url, tmp_path) as (platform, processes):
        async with httpx.AsyncClient(headers={"authorization": f"Bearer {platform.key}"}, timeout=60) as http:
            url = f"{platform.urls[0]}/chat/completions"
            expected = Seen()
            await _read(http, url, case, expected)
            answers = [expected]
            assert len(expected.found) == STEPS
            moments = random.Random(1)
            for victim, kill in product(case.victims, range(max(KILLS, STEPS))):
                seen, later = Seen(), moments.uniform(0, case.step_seconds) if kill >= STEPS else 0
                asking = asyncio.create_task(_read(http, url, case, seen))
                await _killed_in(kill % STEPS, later, victim, seen, asking, platform, processes)
                assert seen.ended
                assert (seen.texts, seen.finish_reasons) == (expected.texts, expected.finish_reasons)
                assert seen.found == expected.found
                assert seen.usage == expected.usage
                answers.append(seen)
                print(f"killed {victim} in step {kill % STEPS}, {later:.2f} s after its start: the same answer")
        await platform.settled()
        jobs = {job["_id"]: job for job in await platform.documents("jobs")}
        assert {seen.id for seen in answers} == {id_ for id_, job in jobs.items() if not job.get("parent")}
        generated, scored = (expected.found[-1][key] for key in ("generated", "scored"))
        for seen in answers:
            final = jobs[seen.id]["final"]
            parts = {part["model"]: part for part in final["parts"]}
            assert final["completion_tokens"] == seen.usage["completion_tokens"]
            # Several answers may share the one token of the first round.
            shared = len(seen.texts) - 1
            assert 0 <= final["completion_tokens"] + parts[MODEL]["completion_tokens"] - generated <= shared
            assert parts.get(VERIFIER, {"prompt_tokens": 0})["prompt_tokens"] == scored
        assert await platform.differences() == []


async def _killed_in(
    number: int,
    later: float,
    victim: str,
    seen: Seen,
    asking: asyncio.Task[None],
    platform: PayingPlatform,
    processes: Processes,
) -> None:
    """Kill the worker that has the job, or the verifier, `later` seconds after the start of a step, if the search still
    runs; start another one, and wait for the answer."""
    await until(lambda: seen.running(number) or asking.done())
    await asyncio.sleep(later)
    models = platform.gateways[0].models
    if victim == "search":
        jobs = platform.gateways[0].inbox._jobs.values()
        name = next((job.recovery.worker_id or "" for job in jobs), processes.names(victim)[0])
    else:
        [name] = processes.names(victim)
    await processes.kill(name)
    started = await processes.start(victim)
    await until(lambda: started in {status.worker for status in models.workers()})
    await asyncio.wait_for(asking, 60)


async def _read(http: httpx.AsyncClient, url: str, case: Case, seen: Seen) -> None:
    async with http.stream("POST", url, json={**BODY, **case.fields}) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            seen.read(line)
