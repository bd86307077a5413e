from __future__ import annotations

import math

import pytest
import torch

from inference_worker.engine.sampling.inverse_cdf import LOWEST, exponentials, inverse_cdf


def test_weights_are_exponentials() -> None:
    scores = torch.linspace(-60, 0, 1000)[None]
    assert torch.allclose(exponentials(scores.clone()), scores.exp(), rtol=1e-6, atol=0)


def test_very_unlikely_tokens_have_weight_zero() -> None:
    scores = torch.tensor([[0.0, LOWEST, math.nextafter(LOWEST, -100), -100.0, -1e30, float("-inf")]])
    assert exponentials(scores).tolist() == [[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]


def test_a_row_of_nan_stays_one() -> None:
    assert exponentials(torch.full((1, 4), float("nan"))).isnan().all()


@pytest.mark.parametrize("number", [0.0, 0.25, 1 - 2**-53])
def test_only_tokens_with_weight_are_sampled(number: float) -> None:
    scores = torch.full((1, 512), float("-inf"))
    scores[0, 300] = 0.0
    assert inverse_cdf(scores, torch.tensor([number], dtype=torch.float64)).tolist() == [300]
