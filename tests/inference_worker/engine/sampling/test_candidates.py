"""Tests of top-k selection against a stable sort, with ties."""

from __future__ import annotations

import pytest
import torch

from inference_worker.engine.sampling.candidates import GROUP, best, in_order_of_ids, top_token


def coarse(rows: int, vocabulary: int) -> torch.Tensor:
    """Scores with many equal ones, zeros of both signs and impossible tokens."""
    scores = torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(0)).mul(8).round() / 8
    scores[:, ::7] = float("-inf")
    scores[:, 3::11] = -0.0
    return scores


@pytest.mark.parametrize("vocabulary", [12, 500, 40 * GROUP, 1024 * GROUP])
@pytest.mark.parametrize("count", [1, 10, 64, 300])
def test_best_is_the_head_of_a_stable_sort(vocabulary: int, count: int) -> None:
    scores = coarse(5, vocabulary)
    expected, order = scores.sort(dim=-1, descending=True, stable=True)
    values, ids = best(scores, count)
    assert torch.equal(values, expected[:, :count])
    assert torch.equal(ids, order[:, :count])


@pytest.mark.parametrize("vocabulary", [12, 40 * GROUP])
def test_top_token_is_the_first_of_equals(vocabulary: int) -> None:
    scores = coarse(5, vocabulary).clamp(max=1.0)
    assert torch.equal(top_token(scores), (scores == scores.amax(dim=-1, keepdim=True)).int().argmax(dim=-1))


def test_order_of_ids() -> None:
    ids = torch.tensor([[5, 0, 9, 2], [3, 2, 1, 0]])
    assert in_order_of_ids(ids).tolist() == [[1, 3, 0, 2], [3, 2, 1, 0]]
