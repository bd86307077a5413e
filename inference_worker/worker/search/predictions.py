"""Collects the most probable tokens after a beam of a search: one engine request for one token."""

from __future__ import annotations

from msgspec.structs import replace

from inference_worker.engine_protocol import GenerationRequest, TokenEvent
from inference_worker.search.events import Predict, Predicted

MAX_TOKENS = 20
"""Most tokens after a beam that the engine reports."""


class Prediction:
    """The tokens that a `Predict` command requests: the alternatives of an engine request for one token."""

    def __init__(self, command: Predict, request: GenerationRequest, request_id: str) -> None:
        """`request` is the job's engine request, without the beam; `request_id` the id of the new one."""
        sampling = replace(
            request.sampling, temperature=0.0, max_tokens=1, min_tokens=0, ignore_eos=True, logprobs=command.count
        )
        self.request = replace(
            request,
            id=request_id,
            prompt_ids=[*request.prompt_ids, *command.prefix],
            sampling=sampling,
            n=1,
            delivered=[],
            ended=[],
            reasoning=None,
        )
        self._beam = command.beam
        self._tokens: list[tuple[int, float]] | None = None

    def outstanding(self) -> GenerationRequest:
        """Return the engine request again, for a restarted engine."""
        return self.request

    def push(self, event: TokenEvent) -> bool:
        """Take the alternatives of the engine's only token; return false, as the engine has ended the request."""
        if event.logprobs:
            self._tokens = [(each.id, each.logprob) for each in event.logprobs[0].top]
        return False

    def ended(self) -> Predicted | None:
        """Return the event for the search's driver; `None` until the engine has generated the token."""
        return None if self._tokens is None else Predicted(self._beam, self._tokens)
