"""Sampling without a decision of the host: the same draws as `sampler.py`, every parameter in a tensor.

What would need the host in every step (penalties, bias, bans, grammars, minimum lengths, log probabilities) is not done
here; rows that want it are left to `sampler.py`. Knows rows' parameters, not where they are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from inference_worker.sampling.drawing import inverse_cdf
from inference_worker.sampling.parameters import GREEDY_BELOW
from inference_worker.sequence import Sequence

Uniform = Callable[[Tensor, Tensor, Tensor], Tensor]
"""`philox.uniform`, or what computes the same."""


class Stage(IntEnum):
    """How much has to be done for a batch; each includes those before it."""

    GREEDY = 0
    DRAWN = 1
    TRUNCATED = 2


@dataclass(frozen=True)
class RowParameters:
    """Of each row, on the device: [R] int64, but temperature, min_p and top_p, which are float64."""

    seeds: Tensor
    choices: Tensor
    positions: Tensor
    """How many tokens were generated before the one to draw."""
    temperature: Tensor
    min_p: Tensor
    top_k: Tensor
    top_p: Tensor


def stage_of(sequences: Iterable[Sequence]) -> Stage | None:
    """The least that serves all of them; `None` if one wants what needs the host."""
    stage = Stage.GREEDY
    for sequence in sequences:
        wanted = sequence.sampling
        if (
            wanted.logprobs is not None
            or wanted.logit_bias
            or sequence.matcher is not None
            or wanted.allowed_token_ids is not None
            or sequence.bad_words
            or wanted.repetition_penalty != 1.0
            or wanted.frequency_penalty
            or wanted.presence_penalty
            or sequence.generated < wanted.min_tokens
        ):
            return None
        if wanted.temperature >= GREEDY_BELOW:
            cut = wanted.top_k > 0 or wanted.top_p < 1 or wanted.min_p > 0
            stage = max(stage, Stage.TRUNCATED if cut else Stage.DRAWN)
    return stage


def choose(logits: Tensor, rows: RowParameters, stage: Stage, uniform: Uniform) -> Tensor:
    """The next token of each row: [R, V] float32 to [R]."""
    likeliest = logits.argmax(dim=-1)
    if stage is Stage.GREEDY:
        return likeliest
    temperature = rows.temperature.float()[:, None]
    random = temperature >= GREEDY_BELOW
    scores = (logits - logits.amax(dim=-1, keepdim=True)) / torch.where(random, temperature, 1.0)
    if stage is Stage.TRUNCATED:
        scores = _cut(scores, rows)
    drawn = inverse_cdf(scores, uniform(rows.seeds, rows.choices, rows.positions))
    return torch.where(random[:, 0], drawn, likeliest)


def _cut(scores: Tensor, rows: RowParameters) -> Tensor:
    """-inf in place of what min_p, top_k and top_p drop; [R, V] scores, the largest of each row 0.

    The vocabulary is sorted: how much of it a row needs is known on the device only, and a captured step can't ask.
    """
    scores = scores.masked_fill(scores < rows.min_p.float().log()[:, None], float("-inf"))
    ordered, order = scores.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(scores.shape[1], device=scores.device)
    top_k, top_p = rows.top_k[:, None], rows.top_p[:, None]
    ordered.masked_fill_((rank >= top_k) & (top_k > 0), float("-inf"))
    before = ordered.double().softmax(dim=-1).cumsum(dim=-1).roll(1, dims=-1)
    before[:, 0].zero_()
    ordered.masked_fill_((before >= top_p) & (top_p < 1) & (rank > 0), float("-inf"))
    return torch.empty_like(scores).scatter_(1, order, ordered)
