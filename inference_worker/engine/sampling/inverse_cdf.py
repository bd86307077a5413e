"""Samples token ids by the inverse CDF over the whole vocabulary: finds the random number's chunk, then the token.

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
    """Replace [D, V] float32 scores, all at most 0, by their exponentials in place, and return them.

    The exponential of a score at or below `LOWEST` is 0.
    """
    return scores.clamp_(min=LOWEST).exp_().sub_(2 * math.exp(LOWEST)).clamp_(min=0)


def chunk_masses(weights: Tensor) -> Tensor:
    """Return the sums of fixed chunks of each row's weights, [D, V] to [D, V / chunk] float64.

    The order of addition is independent of D, so that a row's sums do not depend on the other rows.
    """
    return _chunks(weights).sum(dim=-1).double()


def inverse_cdf(scores: Tensor, numbers: Tensor) -> Tensor:
    """Sample one token id per row: the one at which the cumulative probability, in order of token ids, passes a number.

    Args:
        scores: [D, V] float32, the largest of each row 0; overwritten. Tokens at -inf are never sampled.
        numbers: [D] float64, random numbers in [0, 1).

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
    """Return, for each row, the index at which the cumulative weight passes a random number in [0, 1).

    Args:
        weights: [D, K] float64, not normalised.
        numbers: [D] float64.

    Returns:
        [D, 1] indices.
    """
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
