"""State of a job whose answer a worker searches for: the search, its running continuations, its released steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from inference_worker.engine_protocol import EngineRequest
from inference_worker.search.driver import SearchDriver
from inference_worker.worker.engine_attempt import GenerationAttempt
from inference_worker.worker.search.continuations import Continuations
from router.consumer.attempts import SteppedAttempt


@dataclass(eq=False)
class SearchAttempt(SteppedAttempt, GenerationAttempt):
    """One attempt at a job with a search: steps, then the chosen answer as one choice.

    Engine requests have the ids `ATTEMPT/NUMBER`, one for each path that is extended.
    """

    driver: SearchDriver | None = None
    """The search; `None` until the attempt has a slot."""
    running: dict[str, Continuations] = field(default_factory=dict)
    """Continuations that the engine computes, by the id of the engine request."""
    stop_ids: set[int] = field(default_factory=set)
    """Tokens that end an answer."""
    opened: int = 0
    """Number of engine requests of this attempt so far."""

    @property
    def in_engine(self) -> bool:
        """Whether the engine computes for the attempt: not while the verifier scores."""
        return bool(self.running)

    def requests(self) -> list[EngineRequest]:
        """Return the engine requests of what is not generated yet."""
        return [each.request for each in self.running.values()]

    @property
    def request_ids(self) -> list[str]:
        """Ids of the engine requests."""
        return list(self.running)
