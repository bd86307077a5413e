"""An assistant process that tests can kill, with tools and a router that wait where a test wants them to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from assistant.abilities import Abilities
from assistant.catalogue import AssistantSpec
from assistant.metrics import AssistantMetrics
from assistant.model_port import ModelPort
from assistant.routing.router import Choice, Router
from assistant.tools.tool import Tool, ToolContext
from assistant.tools.toolbox import Toolbox
from assistant.turn import Turn
from assistant.worker import AssistantWorker
from router.bus import Bus
from router.consumer.gateway_clocks import GatewayClocks
from router.producer.child_jobs import ChildJobs
from router.producer.metrics import ProducerMetrics
from router.timings import DEFAULT_TIMINGS, Timings
from router.transport.base import Transport

ASSISTANT = "assistant"


class Gate:
    """Makes callers of `passed` wait while it is shut."""

    def __init__(self) -> None:
        self.arrived = 0
        self._open = asyncio.Event()
        self._open.set()

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    async def passed(self) -> None:
        self.arrived += 1
        await self._open.wait()


@dataclass
class GatedTool:
    """A tool that says what it was asked; `error` is raised instead."""

    name: str
    gate: Gate = field(default_factory=Gate)
    text: str | None = None
    """What `phrased` returns."""
    error: Exception | None = None
    result_text: str = "the tool's result"
    description: str = "A tool."
    parameters: dict[str, Any] = field(
        default_factory=lambda: {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
            "additionalProperties": False,
        }
    )
    time_limit: float = 30.0
    cache_seconds: float = 0.0
    contexts: list[ToolContext] = field(default_factory=list)
    stopped: int = 0

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        self.contexts.append(context)
        try:
            await self.gate.passed()
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        if self.error is not None:
            raise self.error
        return {"type": "mcp", "server": "s", "tool": self.name, "content": [], "is_error": False}

    def phrased(self, result: dict[str, Any]) -> str | None:
        return self.text

    def for_model(self, result: dict[str, Any]) -> str:
        return self.result_text

    def from_question(self, question: str, language: str) -> dict[str, Any] | None:
        return None if "nothing" in question else {"text": question}


@dataclass
class WordRouter:
    """Chooses the tool whose name is in the question."""

    gate: Gate = field(default_factory=Gate)
    questions: list[str] = field(default_factory=list)
    way: str = "classifier"

    async def choose(self, question: str, history: Sequence[Turn], tools: Sequence[Tool], models: ModelPort) -> Choice:
        self.questions.append(question)
        await self.gate.passed()
        return Choice(next((each.name for each in tools if each.name in question), None), confidence=0.9)


@dataclass
class Talents:
    """What all processes of a test's assistant share."""

    spec: AssistantSpec
    tools: list[GatedTool]
    router: WordRouter = field(default_factory=WordRouter)
    timings: Timings = DEFAULT_TIMINGS
    patience: float = 20.0
    embedding_router: Callable[[str], Router] | None = None
    more: Callable[[ChildJobs], list[Tool]] = lambda _: []
    """Tools that open child jobs."""

    def tool(self, name: str) -> GatedTool:
        return next(each for each in self.tools if each.name == name)


def talents(timings: Timings = DEFAULT_TIMINGS, **spec: Any) -> Talents:
    """Return an assistant with `math` and `weather`, whose results are phrased, and `web_page`, whose are not."""
    tools = [GatedTool("math"), GatedTool("weather"), GatedTool("web_page", text="")]
    given = {"tools": [each.name for each in tools], "answers_with": "counting", "phrases": "model", **spec}
    return Talents(AssistantSpec(**given), tools, timings=timings)


class AssistantProcess:
    """One process of the assistant on a transport."""

    def __init__(self, transport: Transport, name: str, talents: Talents) -> None:
        self.transport = transport
        self.registry = CollectorRegistry()
        bus = Bus(transport)
        metrics, timings = ProducerMetrics(self.registry), talents.timings
        self.children = ChildJobs(bus, name, metrics, no_worker_timeout=3, max_unread_bytes=2**20, timings=timings)
        self.abilities = Abilities(
            f"{name}-1",
            talents.spec,
            talents.router,
            Toolbox([*talents.tools, *talents.more(self.children)]),
            self.children,
            [ASSISTANT],
            talents.patience,
            talents.embedding_router,
        )
        self.stop, self.hand_over = asyncio.Event(), asyncio.Event()
        self.worker = AssistantWorker(
            bus,
            ASSISTANT,
            self.abilities,
            AssistantMetrics(self.registry),
            drain_grace=5,
            hand_over=self.hand_over,
            timings=timings,
        )

    async def start(self) -> AssistantProcess:
        await self.children.open()
        self.running = [
            asyncio.create_task(self.children.run()),
            asyncio.create_task(self.worker.run(self.stop)),
        ]
        while not self.worker._consumer._consumers and not self.running[1].done():
            await asyncio.sleep(0.002)
        return self

    def skip(self, seconds: float) -> None:
        """Let `seconds` pass on the clock by which jobs reach their deadlines."""
        self.worker._consumer.clocks = GatewayClocks(lambda: time.time() + seconds)

    @property
    def answering(self) -> list[asyncio.Task[None]]:
        """The tasks of its jobs."""
        return [each.task for each in self.worker._consumer.attempts if each.task is not None]

    async def kill(self) -> None:
        """End without a word."""
        tasks = [*self.running, *self.answering]
        await self.transport.close()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def end(self, *, hand_over: bool = True) -> None:
        """Stop, and hand the jobs over, or let them finish."""
        if hand_over:
            self.hand_over.set()
        self.stop.set()
        await asyncio.wait([self.running[1]], timeout=10)
        await self.children.close()
        await asyncio.wait(self.running, timeout=10)
