"""A fake engine whose token at position i is the number i, without torch and child process.

With `step_time` it steps continuously, as a real engine does; without, the test calls `step`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from inference_worker.engine_protocol import (
    Candidate,
    EngineEvent,
    EngineLoad,
    EngineRequest,
    GenerationRequest,
    PositionLogprobs,
    Ready,
    RequestFailed,
    StepReport,
    TokenEvent,
)
from inference_worker.errors import EngineDied, EngineStartFailed
from inference_worker.worker.engine_client import EngineClient
from tests.fakes.counting_text import END, FIRST, NUMBERS, counting_load, counting_ready


@dataclass
class _Counting:
    request: GenerationRequest
    counts: dict[int, int] = field(default_factory=dict)
    """Next position of each choice that is still running."""


class CountingEngine(EngineClient):
    """Counting engine of at most `capacity` running choices; further ones wait."""

    def __init__(self, *, step_time: float | None = None, capacity: int = 64, max_model_len: int = 2048) -> None:
        self._step_time = step_time
        self._capacity = capacity
        self._max_model_len = max_model_len
        self._reports: asyncio.Queue[StepReport | EngineDied | None] = asyncio.Queue()
        self._requests: dict[str, _Counting] = {}
        self._task: asyncio.Task[None] | None = None
        self._busy = asyncio.Event()
        self._generated = 0
        self._prompted = 0
        self._steps = 0
        self.alive = False
        self.starts = 0
        self.failing_starts = 0
        """How many of the next starts fail."""
        self.counted: Counter[str] = Counter()
        """Tokens of each request, over all choices, delivered or not."""
        self.submitted: list[str] = []
        self.aborted: list[tuple[str, int | None]] = []

    @property
    def requests(self) -> list[GenerationRequest]:
        """Unfinished requests."""
        return [counting.request for counting in self._requests.values()]

    async def start(self) -> Ready:
        """Start, or fail if `failing_starts` is set."""
        self.starts += 1
        if self.failing_starts:
            self.failing_starts -= 1
            raise EngineStartFailed("told to fail")
        self.alive = True
        self._reports = asyncio.Queue()
        if self._step_time is not None:
            self._task = asyncio.create_task(self._step_for_ever(self._step_time))
        return counting_ready(self._capacity, self._max_model_len)

    def submit(self, request: EngineRequest) -> None:
        """Add a request."""
        if not self.alive:
            raise EngineDied("dead")
        assert isinstance(request, GenerationRequest)
        self.submitted.append(request.id)
        self._prompted += len(request.prompt_ids)
        delivered = request.delivered or [[]] * request.n
        going = [choice for choice in range(request.n) if choice not in request.ended]
        self._requests[request.id] = _Counting(request, {choice: len(delivered[choice]) for choice in going})
        self._busy.set()

    def abort(self, request: str, choice: int | None = None) -> None:
        """Stop a request, or one choice of it."""
        self.aborted.append((request, choice))
        counting = self._requests.get(request)
        if counting is None:
            return
        counting.counts.pop(choice, None) if choice is not None else counting.counts.clear()
        if not counting.counts:
            del self._requests[request]

    async def reports(self) -> AsyncIterator[StepReport]:
        """Yield the step reports; raise `EngineDied` after `kill` and `die`."""
        reports = self._reports
        while (report := await reports.get()) is not None:
            if isinstance(report, EngineDied):
                raise report
            yield report

    async def stop(self) -> None:
        """Stop the engine."""
        self._end()
        self._reports.put_nowait(None)

    def kill(self, *, planned: bool = False) -> None:
        """Crash, as after a kill by the worker."""
        self.die()

    def die(self, *, elsewhere: bool = False) -> None:
        """Crash, perhaps in a step of another model's engine."""
        self._end()
        self._reports.put_nowait(EngineDied("killed by the test", elsewhere=elsewhere))

    def fail(self, request: str) -> None:
        """Report that one request failed in a step."""
        self._requests.pop(request, None)
        failed = [RequestFailed(request=request, message="told to", in_step=True)]
        self._reports.put_nowait(StepReport(failed=failed, load=self._load()))

    def step(self, steps: int = 1) -> None:
        """Generate the next token of each running choice, `steps` times."""
        for _ in range(steps):
            self._steps += 1
            running = [(each, choice) for each in self._requests.values() for choice in each.counts][: self._capacity]
            events: list[EngineEvent] = [self._count(counting, choice) for counting, choice in running]
            for request in [key for key, counting in self._requests.items() if not counting.counts]:
                del self._requests[request]
            self._reports.put_nowait(StepReport(events=events, load=self._load()))

    def _count(self, counting: _Counting, choice: int) -> TokenEvent:
        position = counting.counts[choice]
        sampling = counting.request.sampling
        limit = sampling.max_tokens or self._max_model_len - len(counting.request.prompt_ids)
        token = self._token(counting.request, choice, position)
        stopped = token in sampling.stop_token_ids or token == END
        last = stopped or position + 1 >= limit
        if last:
            del counting.counts[choice]
        else:
            counting.counts[choice] = position + 1
        self._generated += 1
        self.counted[counting.request.id] += 1
        return TokenEvent(
            request=counting.request.id,
            choice=choice,
            position=position,
            token_ids=[token],
            logprobs=[self._logprobs(counting.request, token)] if sampling.logprobs is not None else None,
            finish_reason=("stop" if stopped else "length") if last else None,
            stop_token=token if stopped else None,
        )

    def _logprobs(self, request: GenerationRequest, token: int) -> PositionLogprobs:
        """Return the log probabilities of a token, the next ones less probable."""
        del request
        candidate = Candidate(token, -0.5)
        return PositionLogprobs(candidate, [candidate])

    def _token(self, request: GenerationRequest, choice: int, position: int) -> int:
        """Return the token at a position of a choice."""
        del request, choice
        return FIRST + position % NUMBERS

    def _load(self) -> EngineLoad:
        choices = sum(len(counting.counts) for counting in self._requests.values())
        return counting_load(
            choices, self._capacity, prompted=self._prompted, generated=self._generated, steps=self._steps
        )

    def _end(self) -> None:
        self.alive = False
        self._requests.clear()
        if self._task is not None:
            self._task.cancel()

    async def _step_for_ever(self, seconds: float) -> None:
        while True:
            await self._busy.wait()
            await asyncio.sleep(seconds)
            if self._requests:
                self.step()
            else:
                self._busy.clear()
