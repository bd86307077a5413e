"""A real engine in the test's process, behind the interface of the engine process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from inference_worker.engine.engine_main import SteppingEngine
from inference_worker.engine_protocol import EngineRequest, Ready, StepReport
from inference_worker.errors import EngineDied
from inference_worker.worker.engine_client import EngineClient


class LocalEngine(EngineClient):
    """Computes a step when the worker asks for its report, so after the worker has handled the report before."""

    def __init__(self, engine: SteppingEngine[Any], after_step: Callable[[StepReport], None] | None = None) -> None:
        """`after_step` is called with each report, after the worker has handled it."""
        self.engine = engine
        self.requests: list[EngineRequest] = []
        """All requests, in order."""
        self._after_step = after_step
        self._woken = asyncio.Event()
        self._dead = self._stopped = False

    async def start(self) -> Ready:
        """Return the engine's limits; it was started before."""
        return self.engine.ready()

    def submit(self, request: EngineRequest) -> None:
        """Add a request."""
        self.requests.append(request)
        self.engine.add(request)
        self._woken.set()

    def abort(self, request: str, choice: int | None = None) -> None:
        """Stop a request, or one choice of it."""
        self.engine.abort(request, choice)

    async def reports(self) -> AsyncIterator[StepReport]:
        """Step the engine while it has work; yield a report of each step."""
        while True:
            await self._woken.wait()
            if self._dead:
                raise EngineDied("killed by the worker")
            if self._stopped:
                return
            events = self.engine.step() if self.engine.has_work() else []
            report = StepReport(events=list(events), failed=self.engine.failures(), load=self.engine.load())
            yield report
            if self._after_step is not None:
                self._after_step(report)
            if not self.engine.has_work():
                self._woken.clear()
            await asyncio.sleep(0)  # other tasks have their turn

    def kill(self, *, planned: bool = False) -> None:
        """End the engine as a crash."""
        self._dead = True
        self._woken.set()

    async def stop(self) -> None:
        """End the engine."""
        self._stopped = True
        self._woken.set()
