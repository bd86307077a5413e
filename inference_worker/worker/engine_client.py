"""Defines the interface by which a worker controls its engine: submits requests of token ids, reads step reports.

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
        """Start the engine, or restart it after a crash; return its report once the model is loaded.

        The report has the model and the engine's limits.

        Raises:
            EngineStartFailed: the model could not be loaded.
        """

    @abstractmethod
    def submit(self, request: EngineRequest) -> None:
        """Send one request (prompt as token ids) to the engine; its results arrive in `reports`.

        Raises:
            EngineDied: the engine is not running.
        """

    @abstractmethod
    def abort(self, request: str, choice: int | None = None) -> None:
        """Stop the engine request with the id `request`, or only its choice `choice`.

        Does nothing for unknown ids or if the engine is not running.
        """

    @abstractmethod
    def reports(self) -> AsyncIterator[StepReport]:
        """Yield the report of each engine step since the last `start`, in order; ends after `stop`.

        Raises:
            EngineDied: the engine exited; all its reports have been yielded before.
        """

    @abstractmethod
    def kill(self, *, planned: bool = False) -> None:
        """Kill the engine as if it had crashed: `reports` then raises `EngineDied`, and `start` can start it again.

        If `planned`, to replace an engine that still computes, the other engines in its process are not blamed.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Stop the engine at once, without finishing its requests; `reports` then ends."""
