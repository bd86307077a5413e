"""Computes the log probabilities of prompt tokens, each given the tokens before it, for `prompt_logprobs`.

A step computes many positions of a prompt, and each has a row of scores as wide as the vocabulary, so only a few rows
are in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from inference_worker.engine.batch import ScheduledSequence
from inference_worker.engine.sampling.logprobs import RawScores
from inference_worker.engine_protocol import PositionLogprobs, PromptScores

ROWS = 64
"""Number of positions whose scores are in memory at once."""

Head = Callable[[Tensor], Tensor]
"""A model's output head: hidden states [R, H] to scores [R, V], float32."""


def score_prompts(entries: list[ScheduledSequence], hidden: Tensor, head: Head) -> dict[str, PromptScores]:
    """Compute the prompt log probabilities that a step yields; requests that want none are left out.

    Args:
        entries: the entries of the step.
        hidden: [T, H], the final hidden states of the entries' tokens, entry after entry.
        head: the model's output head, hidden states to scores.

    Returns:
        The log probabilities by request id.
    """
    scores, row = {}, 0
    for entry in entries:
        if entry.scored:
            scores[entry.sequence.request] = _score(entry, hidden[row : row + entry.count], head)
        row += entry.count
    return scores


def _score(entry: ScheduledSequence, hidden: Tensor, head: Head) -> PromptScores:
    """Score one entry's prompt positions, each from the hidden state of the token before it."""
    positions, sequence = entry.scored, entry.sequence
    states = hidden[positions.start - 1 - entry.start :]
    chosen = torch.tensor(sequence.token_ids[positions.start : positions.stop], device=hidden.device)
    wanted = sequence.sampling.prompt_logprobs or 0
    logprobs: list[PositionLogprobs] = []
    ranks: list[int] = []
    for start in range(0, len(chosen), ROWS):
        some = chosen[start : start + ROWS]
        raw = RawScores.of(head(states[start : start + len(some)]))
        logprobs += raw.report(some, [wanted] * len(some))
        ranks += raw.ranks(some)
    return PromptScores(positions.start, logprobs, ranks)
