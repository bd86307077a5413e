"""Decides when a choice that the engine generates ends: at a stop token, with a complete grammar or at its length.

Stop strings need text, so the worker process checks them.
"""

from __future__ import annotations

from inference_worker.engine.sequence import Sequence
from inference_worker.engine_protocol import EngineFinishReason


def finish_reason(sequence: Sequence) -> EngineFinishReason | None:
    """Return why a choice ends with its last token: `stop` or `length`; `None` if more tokens are to be generated.

    A choice whose grammar allows no further token ends without a stop token. Stop tokens are masked in sampling below
    `min_tokens`, so none is sampled too early.
    """
    if stop_token(sequence) is not None or (sequence.matcher is not None and sequence.matcher.ended):
        return "stop"
    return "length" if sequence.generated >= sequence.max_tokens else None


def append_decoded(sequence: Sequence, tokens: list[int]) -> int:
    """Append the tokens of several decode steps to a sequence without a grammar, up to the one that ends the choice.

    Returns:
        The number of tokens appended.
    """
    kept = tokens[: sequence.max_tokens - sequence.generated]
    if not sequence.stop_ids.isdisjoint(kept):
        kept = kept[: 1 + next(index for index, token in enumerate(kept) if token in sequence.stop_ids)]
    sequence.token_ids.extend(kept)
    if sequence.reasoning is not None:
        for token in kept:
            sequence.reasoning.push(token)
    return len(kept)


def stop_token(sequence: Sequence) -> int | None:
    """Return the id of a sequence's last generated token if it is one of its stop tokens, else `None`."""
    if not sequence.generated:
        return None
    last = sequence.token_ids[-1]
    return last if last in sequence.stop_ids else None
