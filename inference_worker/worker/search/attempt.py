"""Holds a worker's state of a job with a search: the search's driver, its steps, and continuations in the engine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count

from inference_worker.engine_protocol import EngineRequest
from inference_worker.search.driver import SearchDriver
from inference_worker.search.likelihood import LikelihoodDriver
from inference_worker.worker.engine_attempt import GenerationAttempt
from inference_worker.worker.search.continuations import Continuations
from inference_worker.worker.search.predictions import Prediction
from inference_worker.worker.search.result_reading import ResultReading
from router.consumer.attempts import SteppedAttempt
from router.messages import Search


@dataclass(eq=False)
class SearchAttempt(GenerationAttempt, SteppedAttempt):
    """One attempt at a job with a search: engine requests for continuations of paths, then the chosen answer."""

    driver: SearchDriver | LikelihoodDriver | None = None
    """State of the search; `None` until the job is prepared."""
    started: bool = False
    """Whether the driver was started."""
    continuations: dict[str, Continuations | Prediction | ResultReading] = field(default_factory=dict)
    """Continuations, predictions and results that the engine generates, by the ids of their engine requests."""
    evaluating: asyncio.Task[None] | None = None
    """Task that reads or compares results, or waits for the verifier; cancelling it cancels the process or child job.
    """
    _numbers: count[int] = field(default_factory=count)

    @property
    def search(self) -> Search:
        """Options of the job's search: method, number of paths, budget and verifier."""
        if self.job.search is None:
            raise TypeError("a job without a search")
        return self.job.search

    @property
    def in_engine(self) -> bool:
        """Whether the engine generates continuations of this search; false while they are compared or scored."""
        return bool(self.continuations)

    def outstanding(self) -> list[EngineRequest]:
        """Return the continuations' engine requests, less what is generated, for a restarted engine."""
        return [each.outstanding() for each in self.continuations.values()]

    def next_request_id(self) -> str:
        """Return a new id for the next engine request of this attempt: `ATTEMPT_ID/NUMBER`."""
        return f"{self.attempt_id}/{next(self._numbers)}"
