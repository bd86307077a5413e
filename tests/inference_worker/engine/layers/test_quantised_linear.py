"""Quantised linear layers compute the products of the dequantised matrices; kernels run in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

pytest.importorskip("triton", reason="there are builds of Triton for Linux only")

from inference_worker.engine.layers.fused_decoder import project_row
from inference_worker.engine.layers.quantised_linear import QuantisedLinear
from inference_worker.engine.layers.rms_norm import RMSNorm
from inference_worker.engine.native.packing import Fp8Values, Int4Values, Int8Values

CPU = torch.device("cpu")
FORMATS = ["int4", "int4 symmetric", "int8", "fp8"]
Quantised = Int4Values | Int8Values | Fp8Values


def drawn(name: str, outputs: int, inputs: int, *, wide: bool = False) -> Quantised:
    """Random codes, scales and minimums; `wide`: neighbouring groups share them, where 128 inputs fit."""
    generator = torch.Generator().manual_seed(outputs + inputs)
    span = 128 if wide else 32
    scales = torch.rand(outputs, inputs // span, generator=generator).half().float() / 8
    minimums = (
        -8 * scales if name.endswith("symmetric") else torch.randn(scales.shape, generator=generator).half().float()
    )
    scales, minimums = (numbers.repeat_interleave(span // 32, dim=1) for numbers in (scales, minimums))
    if name.startswith("int4"):
        codes = torch.randint(0, 16, (outputs, inputs), generator=generator, dtype=torch.uint8)
        return Int4Values(codes, scales, minimums)
    if name == "int8":
        return Int8Values(torch.randint(-128, 128, (outputs, inputs), generator=generator).to(torch.int8), scales)
    return Fp8Values((torch.randn(outputs, inputs, generator=generator) * 20).to(torch.float8_e4m3fn), scales)


def vectors(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(9))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("outputs", "inputs", "wide"), [(50, 96, False), (40, 256, True), (1, 32, False)])
@pytest.mark.parametrize("rows", [1, 5, 16, 33])
def test_products_are_those_of_the_dequantised_matrix(
    name: str, outputs: int, inputs: int, wide: bool, rows: int
) -> None:
    values = drawn(name, outputs, inputs, wide=wide)
    linear = QuantisedLinear(values, None, CPU)
    assert linear.group == (128 if wide else 32)
    x = vectors(rows, inputs)
    torch.testing.assert_close(linear(x), functional.linear(x, values.dequantise()), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("rows", [3, 40, 130])
def test_short_formats(name: str, rows: int) -> None:
    """Tiles of 16-bit products, which are other ones for few and for many rows."""
    values, bias = drawn(name, 70, 160), vectors(70).half()
    x = vectors(rows, 160).half()
    output = QuantisedLinear(values, bias, CPU)(x)
    assert output.dtype == torch.float16
    expected = functional.linear(x.float(), values.dequantise(), bias.float())
    assert (output.float() - expected).norm() / expected.norm() < 2e-3


def test_every_fp8_number() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    codes[[0x7F, 0xFF]] = 0  # NaN, which loading refuses
    values = Fp8Values(codes.view(8, 32).view(torch.float8_e4m3fn), torch.ones(8, 1))
    rows = QuantisedLinear(values, None, CPU)(torch.eye(32))
    assert torch.equal(rows.T, values.codes.float())


def test_bytes_in_memory() -> None:
    sizes = {}
    for name in ("int4", "int8", "fp8"):
        for wide in (False, True):
            linear = QuantisedLinear(drawn(name, 64, 256, wide=wide), None, CPU)
            sizes[name, wide] = sum(each.numel() * each.itemsize for each in linear.parameters()) * 8 / (64 * 256)
    assert sizes == {
        ("int4", False): 5.0,
        ("int4", True): 4.25,
        ("int8", False): 8.5,
        ("int8", True): 8.125,
        ("fp8", False): 9.0,
        ("fp8", True): 8.25,
    }


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("wide", [False, True])
def test_the_fused_projection_of_one_row(name: str, wide: bool) -> None:
    values = drawn(name, 44, 640, wide=wide)
    weight, bias, x = values.dequantise(), vectors(44), vectors(1, 640)
    x /= 100
    linear = QuantisedLinear(values, bias, CPU)
    norm = RMSNorm(640, 1e-5, dtype=torch.float32)
    norm.weight.copy_(vectors(640) / 100)
    gate, up = functional.linear(norm(x), weight, bias).chunk(2, dim=-1)
    gated = project_row(x, linear, norm=norm, gate=True)
    torch.testing.assert_close(gated, functional.silu(gate) * up, rtol=1e-3, atol=1e-2)
    stream = vectors(1, 44)
    expected = stream + functional.linear(x, weight, bias)
    torch.testing.assert_close(project_row(x, linear, add_to=stream), expected, rtol=1e-4, atol=1e-3)
