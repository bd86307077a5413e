"""Makes the events that report a sequence's new tokens, and its end, to the worker."""

from __future__ import annotations

from inference_worker.engine.scheduling.stop_conditions import finish_reason, stop_token
from inference_worker.engine.sequence import Sequence
from inference_worker.engine_protocol import PositionLogprobs, PromptScores, TokenEvent


def token_event(
    sequence: Sequence,
    tokens: list[int],
    logprobs: list[PositionLogprobs] | None = None,
    scores: PromptScores | None = None,
    *,
    ends: bool,
) -> TokenEvent:
    """Return a sequence's event for one step. `ends`: whether the choice may end with it."""
    event = TokenEvent(
        request=sequence.request,
        choice=sequence.choice,
        position=sequence.generated - len(tokens),
        token_ids=tokens,
        logprobs=logprobs,
        finish_reason=finish_reason(sequence) if ends else None,
        stop_token=stop_token(sequence),
        cached_tokens=0 if sequence.first_event_sent else sequence.cached_tokens,
        prompt=scores,
    )
    sequence.first_event_sent = True
    return event
