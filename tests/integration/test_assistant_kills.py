"""Answers of assistants are whole and billed once, whichever process dies during which step.

Over RabbitMQ and the real store, with two assistants: the connection of the assistant that has the job, or of the
worker, is cut in each phase, 3 times each; `HEADRACE_TEST_KILLS=20` cuts more. `kill -9` of processes is in
`tests/kills/` and in the chaos configuration `assistant`.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from router import topology
from router.transport.base import Transport
from router.transport.rabbitmq import RabbitMQTransport
from tests.fakes.assistant_process import ASSISTANT, AssistantProcess, Talents, talents
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.fleet import FleetWorker, counted, until
from tests.fakes.paying_platform import PayingPlatform

KILLS = int(os.environ.get("HEADRACE_TEST_KILLS", "3"))
TOKENS = 30
PHASES = ("rewrite", "route", "tool", "answer")
MESSAGES = [
    {"role": "user", "content": "weather in Krakow?"},
    {"role": "assistant", "content": "It is 20 degrees in Krakow."},
    {"role": "user", "content": "and tomorrow?"},
]

pytestmark = [pytest.mark.rabbitmq, pytest.mark.store, pytest.mark.timeout(120 + 40 * KILLS)]


@dataclass
class Seen:
    """What a client got."""

    id: str = ""
    text: str = ""
    steps: list[str] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    ended: bool = False

    @property
    def tokens(self) -> int:
        return self.text.count(" ")

    def read(self, line: str) -> None:
        """Read a line of the stream."""
        if line == "data: [DONE]":
            self.ended = True
        elif line.startswith("data: "):
            event = json.loads(line[6:])
            assert "error" not in event, event
            self.id, self.usage = event["id"], event["usage"] or self.usage
            for choice in event["choices"]:
                self.text += choice["delta"].get("content") or ""
                self.steps += [f"{each['kind']} {each['state']}" for each in choice["delta"].get("steps", ())]


class Processes:
    """The processes that die, and those that replace them."""

    def __init__(self, url: str, talents: Talents) -> None:
        self._url = url
        self._talents = talents
        self._numbers = count(1)
        self.assistants: list[AssistantProcess] = []
        self.worker: FleetWorker
        self._transports: list[Transport] = []

    async def start_assistant(self) -> None:
        name = f"assistant-{next(self._numbers)}"
        self.assistants.append(await AssistantProcess(await self._transport(name), name, self._talents).start())

    async def start_worker(self) -> None:
        name = f"worker-{next(self._numbers)}"
        transport = await self._transport(name)
        await transport.declare(topology.platform())
        self.worker = FleetWorker(transport, name, CountingEngine(step_time=0.01))

    async def kill(self, victim: str) -> None:
        """Cut one off that works at the job, and start another one."""
        if victim == "worker":
            await self.worker.kill()
            await self.start_worker()
            return
        dying = next(each for each in self.assistants if each.answering)
        self.assistants.remove(dying)
        await dying.kill()
        await self.start_assistant()

    async def end(self) -> None:
        for each in self.assistants:
            await each.end()
        await self.worker.end()
        for transport in self._transports:
            await transport.close()

    async def _transport(self, name: str) -> Transport:
        transport = RabbitMQTransport(self._url, name, publish_timeout=10)
        await transport.start()
        self._transports.append(transport)
        return transport


@asynccontextmanager
async def stage(rabbitmq_url: str, database_url: str, home: Path) -> AsyncIterator[tuple[PayingPlatform, Processes]]:
    """A gateway, two assistants and a worker."""

    def make_transport(name: str) -> Transport:
        return RabbitMQTransport(rabbitmq_url, name, publish_timeout=10)

    processes = Processes(rabbitmq_url, talents())
    async with AsyncExitStack() as stack:
        platform = await stack.enter_async_context(PayingPlatform(make_transport, database_url, home))
        await processes.start_worker()
        stack.push_async_callback(processes.end)
        await platform.start(gateways=1, workers=0, make_engine=CountingEngine)
        for _ in range(2):
            await processes.start_assistant()
        await until(lambda: platform.gateways[0].models.find(ASSISTANT))
        yield platform, processes


async def test_every_answer_is_whole_and_billed_once(rabbitmq_url: str, database_url: str, tmp_path: Path) -> None:
    async with stage(rabbitmq_url, database_url, tmp_path) as (platform, processes):
        answers: list[Seen] = []
        async with httpx.AsyncClient(headers={"authorization": f"Bearer {platform.key}"}, timeout=60) as http:
            for victim in ("assistant", "worker"):
                for phase in PHASES * KILLS:
                    seen = await _killed_in(phase, victim, http, platform, processes)
                    answers.append(seen)
        await platform.settled()
        jobs = {job["_id"]: job for job in await platform.documents("jobs")}
        assert len(jobs) == len(answers) == 8 * KILLS
        for seen in answers:
            final, told = jobs[seen.id]["final"], seen.usage
            assert told is not None
            assert (final["prompt_tokens"], final["completion_tokens"]) == (told["prompt_tokens"], TOKENS)
            assert [(part["model"], part["units"]) for part in final["parts"]] == [("tool.weather", {"call": 1})]
        assert await platform.differences() == []


async def _killed_in(
    phase: str, victim: str, http: httpx.AsyncClient, platform: PayingPlatform, processes: Processes
) -> Seen:
    """Ask, let the victim die in a phase, and read the answer to its end."""
    router, tool = processes._talents.router.gate, processes._talents.tool("weather").gate
    gate = {"rewrite": router, "route": tool, "tool": tool}.get(phase)
    arrived = 0 if gate is None else gate.arrived
    if gate is not None:
        gate.shut()
    seen = Seen()
    body = {"model": ASSISTANT, "messages": MESSAGES, "max_tokens": TOKENS}
    asking = asyncio.create_task(_read(http, f"{platform.urls[0]}/chat/completions", body, seen))
    if phase == "answer":
        await until(lambda: seen.tokens >= 3 or asking.done())
    else:
        wanted = {"rewrite": "rewrite done", "route": "route done", "tool": "tool running"}[phase]
        await until(lambda: (gate is not None and gate.arrived > arrived and wanted in seen.steps) or asking.done())
    await processes.kill(victim)
    if gate is not None:
        gate.open()
    await asyncio.wait_for(asking, 60)
    assert seen.ended
    assert seen.text == counted(TOKENS)
    assert [each for each in seen.steps if "running" not in each] == ["rewrite done", "route done", "tool done"]
    return seen


async def _read(http: httpx.AsyncClient, url: str, body: dict[str, Any], seen: Seen) -> None:
    asked = body | {"stream": True, "stream_options": {"include_usage": True}}
    async with http.stream("POST", url, json=asked) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            seen.read(line)
