"""Packed weights are those they were made of, and the number of rows decides which are used."""

from __future__ import annotations

import pytest
import torch

from inference_worker.layers.linear import Linear
from inference_worker.layers.quantized_linear import (
    GROUP,
    Int4Values,
    Int4Weight,
    Int8Weight,
    QuantizedLinear,
    packable,
)

INPUTS = 128


def int4_values(rows: int) -> Int4Values:
    """Scales and minimums that bfloat16 holds exactly, with the operator's `minimum + 8 * scale` too."""
    generator = torch.Generator().manual_seed(5)
    codes = torch.randint(0, 16, (rows, INPUTS), generator=generator).to(torch.uint8)
    scales = torch.randint(1, 9, (rows, INPUTS // GROUP), generator=generator) / 64
    return Int4Values(codes, scales, -8 * scales)


def linear(weight: torch.Tensor, *, bias: bool = False) -> Linear:
    layer = Linear(weight.shape[1], weight.shape[0], bias=bias, dtype=torch.float32)
    layer.weight.copy_(weight)
    if layer.bias is not None:
        layer.bias.copy_(torch.arange(weight.shape[0]))
    return layer


@pytest.mark.parametrize("rows", [32, 64, 96, 160])
def test_the_packed_int4_weight_is_exactly_codes_times_scales_plus_minimums(rows):
    values = int4_values(rows)
    # Each column alone: bfloat16 holds the outcome, so nothing is rounded on the way.
    found = torch.cat([Int4Weight(values).product(part) for part in torch.eye(INPUTS).bfloat16().split(16)])
    assert torch.equal(found.float().T, values.dense())


@pytest.mark.parametrize("rows", [32, 96])
def test_int8_is_within_half_a_step_and_bfloat16_rounding(rows):
    weight = torch.randn(rows, INPUTS, generator=torch.Generator().manual_seed(6))
    found = torch.cat([Int8Weight(weight).product(part) for part in torch.eye(INPUTS).bfloat16().split(8)]).float().T
    largest = weight.abs().amax(dim=1, keepdim=True)
    assert ((found - weight).abs() <= largest * (0.5 / 127 + 2**-7)).all()
    assert not torch.equal(found, weight)


def test_few_rows_are_packed_and_many_dense():
    values = int4_values(64)
    dense = linear(values.dense(), bias=True)
    layer = QuantizedLinear(dense, Int4Weight(values))
    most = layer.packed.max_rows
    x = torch.randn(most + 1, INPUTS, generator=torch.Generator().manual_seed(7))
    assert torch.equal(layer(x), dense(x))
    few = layer(x[:most])
    assert few.dtype == torch.float32
    assert not torch.equal(few, dense(x[:most]))
    error = (few - dense(x[:most])).norm() / dense(x[:most]).norm()
    assert error < 2**-7


def test_matrices_are_stacked_in_order():
    first, second = int4_values(32), int4_values(64)
    stacked = Int4Values.stacked([first, second])
    assert torch.equal(stacked.dense(), torch.cat((first.dense(), second.dense())))


@pytest.mark.parametrize(("shape", "expected"), [((64, 96), True), ((48, 96), False), ((64, 80), False)])
def test_shapes_that_tiles_do_not_fill_are_not_packable(shape, expected):
    assert packable(torch.empty(shape)) is expected
