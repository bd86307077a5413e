"""Inverse-CDF sampling over the whole vocabulary in two steps: the chunk in which the number falls, then the token.

So only chunk sums and one chunk per row are accumulated.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LOWEST = -87.0
"""Score from which down a token's weight is 0. Its exponential would be a subnormal float32, which takes ten times as
long to compute: half of the vocabulary at a low temperature, nearly all of it under a grammar."""
CHUNK = 256
"""Number of tokens whose weights are summed in float32; chunks are summed in float64, so that rounding does not
outweigh the rarest tokens."""


def exponentials(scores: Tensor) -> Tensor:
    """Replace [D, V] float32 scores, all at most 0, by their exponentials in place; 0 at `LOWEST` and below."""
    return scores.clamp_(min=LOWEST).exp_().sub_(2 * math.exp(LOWEST)).clamp_(min=0)


def chunk_masses(weights: Tensor) -> Tensor:
    """Return the sums of fixed chunks of each row, [D, V] to [D, V / chunk] float64, in an order independent of D."""
    return _chunks(weights).sum(dim=-1).double()


def inverse_cdf(scores: Tensor, numbers: Tensor) -> Tensor:
    """Return the token at which the cumulative probability, in order of token ids, passes a number in [0, 1).

    Args:
        scores: [D, V] float32, the largest of each row 0; overwritten. Tokens at -inf are never sampled.
        numbers: [D] float64, random numbers.

    Returns:
        [D] token ids.
    """
    weights = exponentials(scores)
    before = chunk_masses(weights).cumsum(dim=-1)
    point = _inside(before, numbers)
    chunk = _passed(before, point)
    point -= torch.where(chunk > 0, before.gather(1, (chunk - 1).clamp(min=0)), 0.0)
    parts = _chunks(weights)
    inner = parts.gather(1, chunk[:, :, None].expand(-1, 1, parts.shape[2]))[:, 0].double().cumsum(dim=-1)
    # A chunk's mass, summed in float32, may exceed this float64 sum of the same weights by rounding.
    point = torch.minimum(point, _below(inner[:, -1:]))
    return (chunk * parts.shape[2] + _passed(inner, point))[:, 0]


def sample_index(weights: Tensor, numbers: Tensor) -> Tensor:
    """Return the index at which the cumulative weight passes a number in [0, 1): [D, K] float64 and [D] to [D, 1]."""
    cumulated = weights.cumsum(dim=-1)
    return _passed(cumulated, _inside(cumulated, numbers))


def _chunks(weights: Tensor) -> Tensor:
    size = CHUNK if weights.shape[1] % CHUNK == 0 else weights.shape[1]
    return weights.view(weights.shape[0], -1, size)


def _inside(cumulated: Tensor, numbers: Tensor) -> Tensor:
    """Scale `numbers` to the total of `cumulated`, [D, 1], kept below it: rounding must not pass the last token."""
    total = cumulated[:, -1:]
    return torch.minimum(numbers[:, None] * total, _below(total))


def _below(total: Tensor) -> Tensor:
    return torch.nextafter(total, torch.zeros_like(total))


def _passed(cumulated: Tensor, point: Tensor) -> Tensor:
    """Return the first index whose cumulative weight is above the point, [D, 1]; the last if none is (a row of NaN)."""
    return torch.searchsorted(cumulated, point, right=True).clamp_(max=cumulated.shape[1] - 1)
