"""Log probabilities of the tokens of prompts: what the model would have made of each, given those before it.

A step computes many positions of a prompt, and each has a row as wide as the vocabulary: only a few rows are there at a
time. Knows a batch and a model's head, not the model's layers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from inference_worker.batch import ScheduledSequence
from inference_worker.engine_protocol import PositionLogprobs, PromptScores
from inference_worker.sampling.logprobs import RawScores

ROWS = 64
"""Positions whose scores are in memory at once."""

Head = Callable[[Tensor], Tensor]
"""Hidden states [R, H] to scores [R, V], float32."""


def score_prompts(entries: list[ScheduledSequence], hidden: Tensor, head: Head) -> dict[str, PromptScores]:
    """What a step tells of the prompts whose log probabilities are wanted, by request.

    Args:
        entries: of the step.
        hidden: [T, H], the states of their tokens, entry after entry.
    """
    scores, row = {}, 0
    for entry in entries:
        if entry.scored:
            scores[entry.sequence.request] = _score(entry, hidden[row : row + entry.count], head)
        row += entry.count
    return scores


def _score(entry: ScheduledSequence, hidden: Tensor, head: Head) -> PromptScores:
    """Of one entry; the state of the token before a position tells the position's scores."""
    positions, sequence = entry.scored, entry.sequence
    told = hidden[positions.start - 1 - entry.start :]
    chosen = torch.tensor(sequence.token_ids[positions.start : positions.stop], device=hidden.device)
    wanted = sequence.sampling.prompt_logprobs or 0
    logprobs: list[PositionLogprobs] = []
    ranks: list[int] = []
    for start in range(0, len(chosen), ROWS):
        some = chosen[start : start + ROWS]
        raw = RawScores.of(head(told[start : start + len(some)]))
        logprobs += raw.report(some, [wanted] * len(some))
        ranks += raw.ranks(some)
    return PromptScores(positions.start, logprobs, ranks)
