"""Workers that search, and their verifier, around engines whose output is a function of their input.

A path's tokens are numbers; a number that ends in 7 ends a step ("17 " ends with the separator "7 ").
`python -m tests.fakes.search_workers KIND --amqp-url ... --id ...` is a process of a worker.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from inference_worker.engine_protocol import (
    Candidate,
    EngineRequest,
    GenerationRequest,
    PositionLogprobs,
    ScoreEvent,
    ScoreRequest,
    StepReport,
)
from inference_worker.worker.job_handler import HandlerFactory
from inference_worker.worker.scoring.answer_inputs import LineAnswers
from inference_worker.worker.scoring.handler import ScoringHandler
from inference_worker.worker.scoring.processor import ScoringProcessor
from inference_worker.worker.search.handler import SearchHandler
from router.bus import Bus
from router.messages import Search, SearchMethod
from router.producer.child_jobs import ChildJobs
from router.producer.metrics import ProducerMetrics
from router.timings import Timings
from router.transport.base import Transport
from router.transport.rabbitmq import RabbitMQTransport
from runtime import lifecycle, logging
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.counting_text import END, FIRST
from tests.fakes.fleet import FleetWorker, shared_text

VERIFIER = "prm"
SEPARATOR = "7 "
BEAM = Search(
    method=SearchMethod.BEAM_SEARCH,
    n=2,
    expansions=2,
    budget_tokens=50_000,
    max_steps=8,
    step_tokens=12,
    separator=SEPARATOR,
    verifier=VERIFIER,
)
VOTE = Search(method=SearchMethod.SELF_CONSISTENCY, n=4, budget_tokens=50_000)
LIKELY = Search(method=SearchMethod.LIKELIHOOD_BEAM_SEARCH, n=3, budget_tokens=50_000, step_tokens=8)


def drawn(*key: object) -> int:
    """A number that depends on `key` only."""
    return int.from_bytes(hashlib.md5(repr(key).encode()).digest()[:6], "big")


class BranchingEngine(CountingEngine):
    """Draws each token by seed, choice, position and prompt; one of 40 ends the answer."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.kept: list[GenerationRequest] = []
        """All requests."""

    def submit(self, request: EngineRequest) -> None:
        super().submit(request)
        assert isinstance(request, GenerationRequest)
        self.kept.append(request)

    def _token(self, request: GenerationRequest, choice: int, position: int) -> int:
        if request.grammar is not None:  # the result of an answer
            return END if position else FIRST + drawn(request.prompt_ids) % 3
        number = drawn(request.sampling.seed, choice, position, request.prompt_ids)
        return END if number % 40 == 0 else FIRST + number // 40 % 100

    def _logprobs(self, request: GenerationRequest, token: int) -> PositionLogprobs:
        """Of different tokens, by the prompt alone; the end of the answer is one of them."""
        numbers = drawn(request.prompt_ids)
        ids = [END if (numbers + i) % 40 == 0 else FIRST + (numbers + i) % 100 for i in range(20)]
        top = [Candidate(id_, -0.1 * (i + 1) - numbers % 997 / 10_000) for i, id_ in enumerate(ids)]
        return PositionLogprobs(Candidate(token, -0.5), top[: request.sampling.logprobs])


class ScoringEngine(CountingEngine):
    """Scores each step of a candidate by its tokens, after `step_time`; while it is held, requests wait."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.held = False
        self.scoring: dict[str, ScoreRequest] = {}

    def submit(self, request: EngineRequest) -> None:
        assert isinstance(request, ScoreRequest)
        self.submitted.append(request.id)
        self.scoring[request.id] = request
        if self._step_time is None:
            self._score()
        else:
            asyncio.get_running_loop().call_later(self._step_time, self._score)

    def abort(self, request: str, choice: int | None = None) -> None:
        self.aborted.append((request, choice))
        self.scoring.pop(request, None)

    def release(self) -> None:
        """Score what has waited."""
        self.held = False
        self._score()

    def _score(self) -> None:
        if self.held:
            return
        for request in self.scoring.values():
            for index, candidate in enumerate(request.inputs):
                if index not in request.done:
                    scores = [drawn(candidate.ids[:end]) % 1000 / 1000 for end in candidate.positions]
                    event = ScoreEvent(request=request.id, index=index, scores=scores)
                    self._reports.put_nowait(StepReport(events=[event]))
        self.scoring.clear()


class SearchWorker(FleetWorker):
    """A worker that generates text and searches."""

    engine_type = BranchingEngine
    engine: BranchingEngine

    def __init__(self, transport: Transport, name: str, *given: Any, **settings: Any) -> None:
        self.children: ChildJobs
        self._own = (transport, name)
        super().__init__(transport, name, *given, **settings)

    def _make_handler(self, timings: Timings) -> HandlerFactory:
        transport, name = self._own
        metrics = ProducerMetrics(CollectorRegistry())
        self.children = ChildJobs(
            Bus(transport), f"{name}-inbox", metrics, no_worker_timeout=5, max_unread_bytes=2**20, timings=timings
        )
        return partial(SearchHandler, shared_text(), self.children)

    async def _run(self) -> None:
        await self.children.open()
        following = asyncio.create_task(self.children.run())
        try:
            await super()._run()
            await self.children.close()
        finally:
            following.cancel()


class VerifierWorker(FleetWorker):
    """A worker with a process reward model."""

    model = VERIFIER
    engine_type = ScoringEngine
    engine: ScoringEngine
    scores_pairs = False

    def _make_handler(self, timings: Timings) -> HandlerFactory:
        text = shared_text()
        inputs = LineAnswers(text.tokenizer, None)
        scoring = ScoringProcessor(inputs, text.bounds, scores_steps=True, scores_pairs=self.scores_pairs)
        return partial(ScoringHandler, scoring)


class PairWorker(VerifierWorker):
    """A worker that says of itself that it scores pairs alone."""

    scores_pairs = True


KINDS: dict[str, type[FleetWorker]] = {"search": SearchWorker, "verifier": VerifierWorker}


async def _run(arguments: argparse.Namespace) -> None:
    logging.configure(arguments.id, style="console", level="info")
    transport = RabbitMQTransport(arguments.amqp_url, name=arguments.id)
    await transport.start()
    kind = KINDS[arguments.kind]
    worker = kind(transport, arguments.id, kind.engine_type(step_time=arguments.step_time))
    lifecycle.stop_on_signals(worker.stop, again=worker.hand_over.set)
    await worker.running
    await transport.close()


def main() -> None:
    """Read the command line and run the worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--amqp-url", required=True)
    parser.add_argument("--id", required=True)
    parser.add_argument("--step-time", type=float, required=True)
    lifecycle.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
