"""Interface between a worker and its engine: requests of token ids in, step reports out.

Implementations: `engine_process.ProcessEngine` (a child process) and the counting engine of the tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator

from inference_worker.engine_protocol import EngineRequest, Ready, StepReport


class EngineClient(ABC):
    """Interface of an engine that may crash and be restarted. Call all methods on one event loop."""

    @abstractmethod
    async def start(self) -> Ready:
        """Start the engine, or restart it after a crash; return its report of the model and limits once it is loaded.

        Raises:
            EngineStartFailed: the model could not be loaded.
        """

    @abstractmethod
    def submit(self, request: EngineRequest) -> None:
        """Send a request to the engine.

        Raises:
            EngineDied: the engine is not running.
        """

    @abstractmethod
    def abort(self, request: str, choice: int | None = None) -> None:
        """Stop a request, or one choice of it. Does nothing for unknown ids or if the engine is not running."""

    @abstractmethod
    def reports(self) -> AsyncIterator[StepReport]:
        """Yield the report of each step since the last `start`, in order; ends after `stop`.

        Raises:
            EngineDied: the engine exited; all its reports have been yielded before.
        """

    @abstractmethod
    def kill(self) -> None:
        """Kill the engine as if it had crashed: `reports` raises `EngineDied`."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop the engine at once, without finishing its requests; `reports` ends."""
