"""The port to an engine, whatever process it runs in: requests in, reports out.

Its users know token ids only. Implementations: `engine_process.ProcessEngine` (a child process), and the counting
engine of the tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator

from inference_worker.engine_protocol import EngineRequest, Ready, StepReport


class EngineClient(ABC):
    """An engine that can die and be started again. All methods are called on one event loop."""

    @abstractmethod
    async def start(self) -> Ready:
        """Start, or start again after it died; returns when the model is loaded.

        Raises:
            EngineStartFailed: it can't.
        """

    @abstractmethod
    def submit(self, request: EngineRequest) -> None:
        """Begin to generate.

        Raises:
            EngineDied: nobody is there to hear it.
        """

    @abstractmethod
    def abort(self, request: str, choice: int | None = None) -> None:
        """Stop a request, or one choice of it; unknown ids and a dead engine are fine."""

    @abstractmethod
    def reports(self) -> AsyncIterator[StepReport]:
        """What each step produced, in order, from the last `start` on; ends after `stop`.

        Raises:
            EngineDied: the engine has gone; everything it said before has been yielded.
        """

    @abstractmethod
    def kill(self) -> None:
        """End it as if it had died by itself; `reports` says so."""

    @abstractmethod
    async def stop(self) -> None:
        """End it now, whatever it is doing."""
