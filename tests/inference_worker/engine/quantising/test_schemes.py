"""Tests of the schemes: what is written is read as nearly the weights, by the layout that its configuration names."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from torch import Tensor

from inference_worker.engine.quantising.schemes import SCHEMES, SchemeName
from inference_worker.engine.weights.compressed_tensors import CompressedTensorsFormat

ERRORS: dict[SchemeName, float] = {"int4": 0.075, "int8": 0.006, "fp8": 0.03}


def read(to: SchemeName, weight: Tensor) -> Tensor:
    scheme = SCHEMES[to]
    layout = CompressedTensorsFormat(scheme.config(["lm_head"]))
    parts = scheme.round(weight, None)
    shapes = {name: tuple(part.shape) for name, part in parts.items()}
    assert layout.is_quantised(set(parts))
    assert layout.shape(shapes, parts.__getitem__) == tuple(weight.shape)
    return layout.read(parts).dequantise()


@pytest.mark.parametrize("to", get_args(SchemeName))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("outputs", [3, 40])
def test_weights_are_rounded(to: SchemeName, dtype: torch.dtype, outputs: int) -> None:
    weight = torch.randn(outputs, 96, generator=torch.Generator().manual_seed(1)).mul(0.05).to(dtype)
    weight[1] = 0
    weight[2, 32:64] = 0.25
    rounded = read(to, weight)
    assert (rounded - weight.float()).norm() / weight.float().norm() < ERRORS[to]
    assert not rounded[1].any()


def test_int4_clips_a_group_where_that_loses_less() -> None:
    weight = torch.linspace(-1, 1, 32).repeat(8, 1)
    weight[:, 0] = -1.2
    error = (read("int4", weight) - weight).square().mean()
    step = 2.2 / 15
    assert error < step**2 / 12


def test_codes_are_packed_from_the_lowest_bits() -> None:
    """As `weight_packed` is defined: input 0 in the lowest bits, and codes plus half their range."""
    weight = torch.zeros(1, 32)
    weight[0, 0], weight[0, 5] = -1.27, 0.01
    packed = SCHEMES["int8"].round(weight, None)["weight_packed"]
    scale = torch.tensor(0.01).half().item()
    first = torch.tensor([round(-1.27 / scale) + 128, 128, 128, 128], dtype=torch.uint8).view(torch.int32)
    second = torch.tensor([128, 129, 128, 128], dtype=torch.uint8).view(torch.int32)
    assert packed[0, :2].tolist() == [first.item(), second.item()]
