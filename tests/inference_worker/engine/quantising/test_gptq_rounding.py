"""Tests of rounding to 4 bits by the moments of inputs: errors of outputs, exact grids, and the order of groups."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from inference_worker.engine.quantising import gptq_rounding
from inference_worker.engine.quantising.gptq_rounding import InputMoments, RoundedMatrix, round_matrix


def values(rounded: RoundedMatrix) -> Tensor:
    groups = rounded.codes.unflatten(1, (-1, 32))
    return ((groups - rounded.zeros[..., None]) * rounded.scales[..., None]).flatten(1)


def correlated_inputs(inputs: int, rows: int = 2000) -> Tensor:
    """Rows of few directions and some noise, of sizes that differ by input."""
    draw = torch.Generator().manual_seed(3)
    directions = torch.randn(inputs // 4, inputs, generator=draw)
    sizes = torch.rand(inputs, generator=draw) * 3 + 0.1
    rows_of = torch.randn(rows, inputs // 4, generator=draw)
    return (rows_of @ directions / inputs**0.5 + 0.1 * torch.randn(rows, inputs, generator=draw)) * sizes


@pytest.fixture
def weight() -> Tensor:
    return torch.randn(24, 128, generator=torch.Generator().manual_seed(5)) * 0.05


def test_outputs_of_correlated_inputs_keep_more_than_with_the_nearest_values(weight: Tensor) -> None:
    inputs = correlated_inputs(256)[:, :128]
    seen, unseen = inputs[:1500], inputs[1500:]
    measured = round_matrix(weight, InputMoments(seen.T @ seen / len(seen)), torch.float16)
    nearest = round_matrix(weight, InputMoments.uncorrelated(128), torch.float16)
    errors = [((values(found) - weight) @ unseen.T).square().mean() for found in (measured, nearest)]
    assert errors[0] < 0.35 * errors[1]
    assert (values(measured) - weight).norm() > (values(nearest) - weight).norm()


def test_sweeps_lower_the_error_of_outputs(weight: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = correlated_inputs(128)
    moments = InputMoments(inputs.T @ inputs / len(inputs))
    errors = []
    for sweeps in range(3):
        monkeypatch.setattr(gptq_rounding, "_SWEEPS", sweeps)
        errors.append(((values(round_matrix(weight, moments, torch.float16)) - weight) @ inputs.T).square().mean())
    assert errors[2] < errors[1] < errors[0]


def test_weights_that_4_bits_can_express_stay_exact() -> None:
    draw = torch.Generator().manual_seed(1)
    codes = torch.randint(0, 16, (6, 2, 32), generator=draw).float()
    codes[..., 0], codes[..., 1] = 0, 15
    zeros = torch.randint(0, 16, (6, 2, 1), generator=draw)
    weight = ((codes - zeros) * 2.0 ** torch.randint(-6, 0, (6, 2, 1), generator=draw)).flatten(1)
    inputs = correlated_inputs(64)
    found = round_matrix(weight, InputMoments(inputs.T @ inputs / len(inputs)), torch.float16)
    assert torch.equal(values(found), weight)


def test_every_group_keeps_its_scale_whatever_the_order_of_groups(weight: Tensor) -> None:
    sizes = torch.tensor([1.0, 100.0, 0.01, 10.0]).repeat_interleave(32)
    weight = weight / sizes
    moments = InputMoments(torch.diag(sizes.square()))
    assert moments.order.tolist() == [1, 3, 0, 2]
    found = round_matrix(weight, moments, torch.float32)
    assert ((values(found) - weight) * sizes).norm() < 0.1 * (weight * sizes).norm()
    assert found.codes.min() == 0
    assert found.codes.max() == 15


def test_outputs_are_rounded_independently(weight: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = correlated_inputs(128)
    moments = InputMoments(inputs.T @ inputs / len(inputs))
    whole = round_matrix(weight, moments, torch.float16)
    monkeypatch.setattr(gptq_rounding, "_WEIGHTS_AT_ONCE", 128 * 5)
    torch.testing.assert_close(values(round_matrix(weight, moments, torch.float16)), values(whole))


def test_inputs_that_are_always_zero_are_no_failure(weight: Tensor) -> None:
    inputs = correlated_inputs(128)
    inputs[:, 40:80] = 0
    found = round_matrix(weight, InputMoments(inputs.T @ inputs / len(inputs)), torch.float16)
    assert torch.isfinite(values(found)).all()
    nothing = round_matrix(weight, InputMoments(torch.zeros(128, 128)), torch.float16)
    assert (values(nothing) - weight).norm() < 0.1 * weight.norm()
