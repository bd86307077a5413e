"""A gateway's inbox, counting workers and assistants on a broker in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest

from router.bus import Bus
from router.messages import ChatPrompt, SamplingParams
from router.timings import Timings
from router.transport.base import Transport
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.fakes.assistant_process import ASSISTANT, AssistantProcess, Talents, talents
from tests.fakes.fleet import Answer, Fleet
from tests.fakes.scripted_worker import Script, ScriptedWorker

TIMINGS: dict[str, Any] = {"gateway_grace": 0.1}


class Platform:
    """The fleet, and what a test starts beside it."""

    def __init__(self, fleet: Fleet, broker: MemoryBroker, stack: AsyncExitStack) -> None:
        self.fleet = fleet
        self._broker = broker
        self._stack = stack

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something until the test ends."""
        task = asyncio.create_task(work)
        self._stack.callback(task.cancel)

    def unstarted(self, name: str) -> Transport:
        return MemoryTransport(self._broker, name)

    async def transport(self, name: str) -> Transport:
        transport = self.unstarted(name)
        await transport.start()
        self._stack.push_async_callback(transport.close)
        return transport

    def talents(self, **spec: Any) -> Talents:
        return talents(Timings(**TIMINGS), **spec)

    async def assistant(self, talents: Talents, name: str = "assistant-1") -> AssistantProcess:
        """A process that ends with the test."""
        process = await AssistantProcess(await self.transport(name), name, talents).start()
        self._stack.push_async_callback(process.end)
        return process

    async def scripted(self, model: str, script: Script, **kind: Any) -> ScriptedWorker:
        """A worker of another model."""
        worker = ScriptedWorker(Bus(await self.transport(f"worker-{model}")), model, script, f"worker-{model}", **kind)
        await self._stack.enter_async_context(worker.running())
        self.run(_beat(worker))
        return worker

    async def ask(self, *texts: str, tokens: int = 5, **fields: Any) -> Answer:
        """Ask the assistant; `texts` are turns of the person and the assistant, the person's first and last."""
        messages = fields.pop("messages", None) or [
            {"role": "assistant" if number % 2 else "user", "content": text} for number, text in enumerate(texts)
        ]
        prompt = ChatPrompt(messages=messages, **fields.pop("chat", {}))
        sampling = SamplingParams(seed=1, max_tokens=tokens, **fields.pop("sampling", {}))
        return await self.fleet.ask("p", model=ASSISTANT, prompt=prompt, sampling=sampling, **fields)


async def _beat(worker: ScriptedWorker) -> None:
    while True:
        worker.bus.send_status(worker.status)
        await asyncio.sleep(0.05)


@pytest.fixture
async def platform() -> AsyncIterator[Platform]:
    broker = MemoryBroker()
    async with AsyncExitStack() as transports, AsyncExitStack() as stack:

        async def make_transport(name: str) -> Transport:
            transport = MemoryTransport(broker, name)
            await transport.start()
            transports.push_async_callback(transport.close)
            return transport

        fleet = await stack.enter_async_context(Fleet(make_transport, **TIMINGS))
        await fleet.bus.declare_model(ASSISTANT)
        yield Platform(fleet, broker, stack)
