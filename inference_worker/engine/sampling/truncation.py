"""Samples from the likeliest tokens only: top_k, min_p and top_p without sorting the vocabulary.

top_k: Fan et al. 2018; min_p: Nguyen et al. 2024; top_p: Holtzman et al. 2020; min_p before top_k and top_p, and top_p
is a share of what these leave (vLLM's order). Each drops the tail of the row in descending order, so a few best tokens
nearly always suffice; rows that need more fetch more. The number of fetched tokens does not change a row's sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inference_worker.engine.sampling.candidates import best, in_order_of_ids
from inference_worker.engine.sampling.inverse_cdf import chunk_masses, exponentials, sample_index

FIRST_CANDIDATES = 64
CANDIDATES_FACTOR = 8
"""Factor by which the number of candidates grows when they do not suffice."""


@dataclass(frozen=True)
class Truncation:
    """Truncation parameters of R rows; tensors are [R, 1].

    Attributes:
        top_k: int64, 0 is off.
        floor: the logarithm of min_p; the least float is off.
        top_p: float64, 1 is off. The likeliest token always stays.
        bounded: whether top_k or min_p is on. If not, top_p is a share of the whole vocabulary's probability.
        whole: whether any row is not bounded.
    """

    top_k: Tensor
    floor: Tensor
    top_p: Tensor
    bounded: Tensor
    whole: bool

    @classmethod
    def of(cls, top_k: list[int], min_p: list[float], top_p: list[float], device: torch.device) -> Truncation:
        """Create the truncation parameters of R rows from one top_k, min_p and top_p per row.

        As in the API, top_k 0, min_p 0 and top_p 1 are off.
        """
        bounded = [k > 0 or p > 0 for k, p in zip(top_k, min_p, strict=True)]
        return cls(
            torch.tensor(top_k, device=device)[:, None],
            torch.tensor(min_p, device=device)[:, None].log().clamp_(min=torch.finfo(torch.float32).min),
            torch.tensor(top_p, device=device, dtype=torch.float64)[:, None],
            torch.tensor(bounded, device=device)[:, None],
            not all(bounded),
        )

    def of_rows(self, rows: Tensor) -> Truncation:
        """Return the truncation parameters of those rows whose indexes are in the tensor `rows`."""
        return Truncation(self.top_k[rows], self.floor[rows], self.top_p[rows], self.bounded[rows], self.whole)


def sample_truncated(scores: Tensor, numbers: Tensor, truncation: Truncation) -> Tensor:
    """Sample one token id per row from the tokens that top_k, min_p and top_p leave, in order of token ids.

    Args:
        scores: [R, V] float32, after temperature, the largest of each row 0.
        numbers: [R] float64, random numbers in [0, 1).
        truncation: the parameters of the R rows.

    Returns:
        [R] token ids.
    """
    mass = (
        chunk_masses(exponentials(scores.clone())).sum(dim=-1, keepdim=True)
        if truncation.whole
        else torch.zeros_like(truncation.top_p)
    )
    vocabulary = scores.shape[1]
    candidates = min(FIRST_CANDIDATES, vocabulary)
    sampled, needed = _sample_from(*best(scores, candidates), mass, numbers, truncation)
    rows = (needed >= candidates).nonzero()[:, 0]
    while candidates < vocabulary and len(rows):
        candidates = min(candidates * CANDIDATES_FACTOR, vocabulary)
        sampled[rows], needed = _sample_from(
            *best(scores[rows], candidates), mass[rows], numbers[rows], truncation.of_rows(rows)
        )
        rows = rows[needed >= candidates]
    return sampled


def _sample_from(
    scores: Tensor, ids: Tensor, mass: Tensor, numbers: Tensor, truncation: Truncation
) -> tuple[Tensor, Tensor]:
    """Sample from the best K tokens of each row.

    Args:
        scores, ids: [R, K], best first.
        mass: [R, 1], the whole vocabulary's weight, for rows that are not bounded.

    Returns:
        [R] token ids, and [R] numbers of tokens that the truncation left; K means that K may not have sufficed.
    """
    rank = torch.arange(ids.shape[1], device=ids.device)
    kept = ((rank < truncation.top_k) | (truncation.top_k == 0)) & (scores >= truncation.floor)
    kept[:, 0] = True
    within_bounds = kept.sum(dim=-1)
    weights = torch.where(kept, scores.double().exp(), 0.0)
    cumulated = weights.cumsum(dim=-1)
    before = cumulated.roll(1, dims=-1)
    before[:, 0] = 0.0
    total = torch.where(truncation.bounded, cumulated[:, -1:], mass)
    kept &= (before < truncation.top_p * total) | (truncation.top_p >= 1) | (rank == 0)
    by_id = in_order_of_ids(ids)
    place = sample_index(torch.where(kept, weights, 0.0).gather(1, by_id), numbers)
    needed = torch.where(truncation.bounded[:, 0], within_bounds, kept.sum(dim=-1))
    return ids.gather(1, by_id.gather(1, place))[:, 0], needed
