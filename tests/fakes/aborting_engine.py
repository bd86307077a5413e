"""A fake engine process that counts as `counting_engine.py` does, and aborts on a prompt with the token `POISON`.

Imports little, so that it restarts quickly.
"""

from __future__ import annotations

import os
from multiprocessing.connection import Connection

from inference_worker.engine.engine_main import serve
from inference_worker.engine.engine_pipes import EventWriter
from inference_worker.engine_protocol import EngineLoad, GenerationRequest, Ready, RequestFailed, TokenEvent
from inference_worker.settings import EngineSettings
from tests.fakes.counting_text import FIRST, counting_ready

POISON = 7
"""A token id."""
SLOTS = 32


class AbortingEngine:
    """Generates a token per request and step; aborts the process if a prompt contains `POISON`."""

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}
        self._requests: dict[str, GenerationRequest] = {}

    def ready(self) -> Ready:
        return counting_ready(SLOTS, max_model_len=2048)

    def add(self, request: GenerationRequest) -> None:
        self._requests[request.id] = request
        self._positions[request.id] = len(request.delivered[0]) if request.delivered else 0

    def abort(self, request: str, choice: int | None = None) -> None:
        self._requests.pop(request, None)

    def step(self) -> list[TokenEvent]:
        if any(POISON in request.prompt_ids for request in self._requests.values()):
            os.abort()
        return [self._next(request) for request in list(self._requests.values())]

    def has_work(self) -> bool:
        return bool(self._requests)

    def load(self) -> EngineLoad:
        return EngineLoad(running=len(self._requests))

    def failures(self) -> list[RequestFailed]:
        return []

    def _next(self, request: GenerationRequest) -> TokenEvent:
        position = self._positions[request.id]
        self._positions[request.id] += 1
        last = position + 1 == request.sampling.max_tokens
        if last:
            del self._requests[request.id]
        return TokenEvent(
            request=request.id,
            choice=0,
            position=position,
            token_ids=[FIRST + position],
            finish_reason="length" if last else None,
        )


def run(_settings: EngineSettings, commands: Connection, reports: Connection) -> None:
    """Run the engine; the child's main function."""
    writer = EventWriter(reports)
    writer.write(AbortingEngine().ready())
    try:
        serve(AbortingEngine(), commands, writer)
    except (EOFError, OSError):
        return
