"""When a choice is over: a stop token, a complete grammar or its length.

Stop strings are text, so the worker looks for those.
"""

from __future__ import annotations

from inference_worker.engine_protocol import EngineFinishReason
from inference_worker.sequence import Sequence


def finish_reason(sequence: Sequence) -> EngineFinishReason | None:
    """Why the choice ends with its last known token; `None`: it goes on.

    What nothing can follow in its grammar is over without a stop token. Below `min_tokens` stop tokens are masked when
    sampling, so none can be drawn too early.
    """
    if stop_token(sequence) is not None or (sequence.matcher is not None and sequence.matcher.ended):
        return "stop"
    return "length" if sequence.generated >= sequence.max_tokens else None


def append_run(sequence: Sequence, tokens: list[int]) -> int:
    """Append tokens that were drawn one after the other and no grammar looks at, up to the one that ends the choice.

    Returns how many.
    """
    kept = tokens[: sequence.max_tokens - sequence.generated]
    if not sequence.stop_ids.isdisjoint(kept):
        kept = kept[: 1 + next(index for index, token in enumerate(kept) if token in sequence.stop_ids)]
    sequence.token_ids.extend(kept)
    return len(kept)


def stop_token(sequence: Sequence) -> int | None:
    """The last generated token, if it is a stop token."""
    if not sequence.generated:
        return None
    last = sequence.token_ids[-1]
    return last if last in sequence.stop_ids else None
