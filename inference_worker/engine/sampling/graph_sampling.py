"""Samples next tokens inside CUDA graphs: the same samples as `sampler.py`, with every parameter in a tensor.

Features that need the host in every step (penalties, bias, bans, grammars, minimum lengths, log probabilities) are not
supported here; rows that use them are sampled by `sampler.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from inference_worker.engine.sampling.inverse_cdf import inverse_cdf
from inference_worker.engine.sampling.parameters import GREEDY_BELOW, is_truncated
from inference_worker.engine.sampling.penalties import is_penalised
from inference_worker.engine.sequence import Sequence

Uniform = Callable[[Tensor, Tensor, Tensor], Tensor]
"""A function that computes the same as `philox.uniform` on tensors."""


class Stage(IntEnum):
    """The sampling work of a batch: argmax; also random rows; also rows truncated by top_k, top_p or min_p."""

    GREEDY = 0
    RANDOM = 1
    TRUNCATED = 2


@dataclass(frozen=True)
class RowParameters:
    """Sampling parameters of R rows on the device: [R] int64, but float64 for temperature, min_p and top_p."""

    seeds: Tensor
    choices: Tensor
    positions: Tensor
    """Number of tokens generated before the one to sample."""
    temperature: Tensor
    min_p: Tensor
    top_k: Tensor
    top_p: Tensor


def stage_of(sequences: Iterable[Sequence]) -> Stage | None:
    """Return the cheapest sampling stage (greedy, random, truncated) of CUDA graphs that serves all `sequences`.

    `None` if a sequence needs the host to sample, for a grammar, penalties or log probabilities for example.
    """
    stage = Stage.GREEDY
    for sequence in sequences:
        wanted = sequence.sampling
        if (
            wanted.logprobs is not None
            or wanted.logit_bias
            or sequence.matcher is not None
            or (sequence.reasoning is not None and sequence.reasoning.forced is not None)
            or wanted.allowed_token_ids is not None
            or sequence.bad_words
            or is_penalised(wanted)
            or sequence.generated < wanted.min_tokens
        ):
            return None
        if wanted.temperature >= GREEDY_BELOW:
            stage = max(stage, Stage.TRUNCATED if is_truncated(wanted) else Stage.RANDOM)
    return stage


def sample(logits: Tensor, rows: RowParameters, stage: Stage, uniform: Uniform) -> Tensor:
    """Sample the next token id of each of R rows from its logits: [R, V] float32 to [R].

    Args:
        rows: the rows' sampling parameters on the device.
        stage: the work to do; it must serve all rows.
        uniform: gives each row's random number in [0, 1).
    """
    likeliest = logits.argmax(dim=-1)
    if stage is Stage.GREEDY:
        return likeliest
    temperature = rows.temperature.float()[:, None]
    random = temperature >= GREEDY_BELOW
    scores = (logits - logits.amax(dim=-1, keepdim=True)) / torch.where(random, temperature, 1.0)
    if stage is Stage.TRUNCATED:
        scores = _truncate(scores, rows)
    sampled = inverse_cdf(scores, uniform(rows.seeds, rows.choices, rows.positions))
    return torch.where(random[:, 0], sampled, likeliest)


def _truncate(scores: Tensor, rows: RowParameters) -> Tensor:
    """Set the scores that min_p, top_k and top_p drop to -inf; [R, V] scores, the largest of each row 0.

    The whole vocabulary is sorted: how much of it a row needs is known on the device only.
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
