"""Tests of products with packed weights: correct, and bit-identical in any batch and on any number of threads."""

from __future__ import annotations

import pytest
import torch

from inference_worker.engine.native.library import Kernels
from inference_worker.engine.native.packing import (
    GROUP,
    Int4Values,
    Int8Values,
    PackedWeight,
    Values,
    concatenate,
    interleave,
    pack,
)
from inference_worker.settings import ActivationBits

TOLERANCE = {
    "float32": 1e-6,
    "float16": 1e-6,
    "bfloat16": 1e-6,
    "int8": 1e-4,
    "int8-signed": 1e-4,
    "int4": 1e-4,
    "int4-mixed": 0.01,
    "int8-mixed": 0.01,
    "int4-8": 0.01,
    "int8-8": 0.01,
}
"""Of the products without cancellation: rows beside integers are rounded to 16 bits, or all or most inputs to 8."""
BITS: dict[str, ActivationBits] = {"8": 8, "mixed": "auto"}
"""By the ends of kinds; others have 16."""


@pytest.fixture(scope="module", params=[1, 3])
def kernels(request: pytest.FixtureRequest, instructions: str) -> Kernels:
    return Kernels(request.param, instructions)


def values_of(kind: str, outputs: int, inputs: int, seed: int = 0) -> Values:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(outputs, inputs, generator=generator)
    if kind.startswith("int8"):
        return Int8Values.of(weight)
    if kind.startswith("int4"):
        codes = torch.randint(0, 16, (outputs, inputs), generator=generator, dtype=torch.uint8)
        scales, minimums = torch.rand(2, outputs, inputs // GROUP, generator=generator).half().float()
        return Int4Values(codes, scales, -8 * minimums)
    return weight.to(getattr(torch, kind))


def packed(kind: str, values: Values, kernels: Kernels, bias: torch.Tensor | None = None) -> PackedWeight:
    end = kind.rpartition("-")[2]
    bits = BITS.get(end, 16)
    paired = kernels.multiplies_bfloat16
    return pack(values, bias, panel=kernels.panel, activation_bits=bits, signed=end == "signed", paired=paired)


def product(
    kernels: Kernels, kind: str, values: Values, x: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    return kernels.linear(packed(kind, values, kernels, bias), x)


def dequantise(values: Values) -> torch.Tensor:
    return values.float() if isinstance(values, torch.Tensor) else values.dequantise()


@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize(("outputs", "inputs"), [(16, 32), (37, 96), (160, 64)])
def test_products_are_those_of_the_dense_weight(kernels: Kernels, kind: str, outputs: int, inputs: int) -> None:
    generator = torch.Generator().manual_seed(1)
    values, bias = values_of(kind, outputs, inputs), torch.randn(outputs, generator=generator)
    for rows in (1, 2, 5, 40):
        x = torch.randn(rows, inputs, generator=generator) * torch.logspace(-3, 3, rows)[:, None]
        seen = x.bfloat16() if kind == "bfloat16" and kernels.multiplies_bfloat16 else x
        expected = (seen.double() @ dequantise(values).double().T + bias).float()
        error = (product(kernels, kind, values, x, bias) - expected).norm(dim=1)
        magnitude = (x.abs() @ dequantise(values).abs().T + bias.abs()).norm(dim=1)
        assert (error / magnitude).max() < TOLERANCE[kind]


@pytest.mark.parametrize("kind", TOLERANCE)
def test_a_row_is_bit_identical_in_any_batch(kernels: Kernels, kind: str) -> None:
    weight, x = packed(kind, values_of(kind, 48, 64), kernels), torch.randn(300, 64)
    together = kernels.linear(weight, x)
    for rows in (slice(0, 1), slice(4, 7), slice(100, 190)):
        assert torch.equal(kernels.linear(weight, x[rows].contiguous()), together[rows])


def test_a_row_beside_bfloat16_is_bit_identical_beside_any_number_of_rows(kernels: Kernels) -> None:
    weight, x = packed("bfloat16", values_of("bfloat16", 48, 96), kernels), torch.randn(40, 96)
    expected = kernels.linear(weight, x)
    for rows in range(1, len(x)):
        assert torch.equal(kernels.linear(weight, x[:rows]), expected[:rows])


def test_rows_beside_bfloat16_are_rounded_to_the_nearest_even(kernels: Kernels) -> None:
    weight, step = packed("bfloat16", torch.eye(32).bfloat16(), kernels), 2**-7
    x = torch.randn(5, 32)
    x[0, :4] = torch.tensor([1 + step / 2, 1 + 3 * step / 2, -1 - step / 2, 1 + 0.51 * step])
    x[4, 7] = torch.nan
    seen = x.bfloat16().float() if kernels.multiplies_bfloat16 else x
    found = kernels.linear(weight, x)
    assert torch.equal(found[:4], seen[:4])
    assert found[4].isnan().all()


@pytest.mark.parametrize("kind", ["int4", "int8"])
def test_the_largest_inputs_of_a_group_do_not_coarsen_the_others(kernels: Kernels, kind: str) -> None:
    values, x = values_of(kind, 32, 3 * GROUP), torch.randn(7, 3 * GROUP)
    for row in range(len(x)):
        for start in range(0, 3 * GROUP, GROUP):
            x[row, start + row] *= 100  # two inputs of one quad, or of two
            x[row, start + 3 + 4 * row] *= -100
    expected = x @ dequantise(values).T
    bytes_only, mixed = ((product(kernels, f"{kind}-{end}", values, x) - expected).norm() for end in ("8", "mixed"))
    assert mixed < bytes_only / 20


def mixed_codes(x: torch.Tensor) -> torch.Tensor:
    """Rows as products see them with mixed bits: quads beside the two largest of a group determine its step."""
    groups = x.view(len(x), -1, GROUP)
    largest = groups.abs().view(len(x), -1, GROUP // 4, 4).amax(-1).sort(dim=-1, descending=True).values
    step = torch.maximum(largest[..., 2] / 127, largest[..., 0] / (256 * 127))[..., None]
    return ((groups / step).round() * step).flatten(1)


@pytest.mark.parametrize("kind", ["int4", "int8"])
@pytest.mark.parametrize("spread", [0.3, 1, 4])
def test_mixed_rows_are_rounded_by_their_third_largest_quad(kernels: Kernels, kind: str, spread: float) -> None:
    generator = torch.Generator().manual_seed(4)
    values = values_of(kind, 40, 4 * GROUP)
    x = (
        torch.randn(50, 4 * GROUP, generator=generator)
        * (spread * torch.randn(50, 4 * GROUP, generator=generator)).exp()
    )
    weight = dequantise(values)
    rounding = (product(kernels, f"{kind}-mixed", values, x) - x @ weight.T).norm()
    error = (product(kernels, f"{kind}-mixed", values, x) - mixed_codes(x) @ weight.T).norm()
    assert error < rounding / 30


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_of_codes_do_not_overflow(kernels: Kernels, sign: int) -> None:
    """All codes and all values at their largest."""
    int4 = Int4Values(torch.full((16, 64), 15, dtype=torch.uint8), torch.ones(16, 2), torch.zeros(16, 2))
    int8 = Int8Values(torch.full((16, 64), -127, dtype=torch.int8), torch.ones(16, 2))
    most = Int8Values(-int8.codes, int8.scales)
    cases = (
        (int4, 15, "int4"),
        (int4, 15, "int4-8"),
        (int4, 15, "int4-mixed"),
        (int8, -127, "int8"),
        (most, 127, "int8"),
        (int8, -127, "int8-signed"),
        (int8, -127, "int8-8"),
        (most, 127, "int8-8"),
        (int8, -127, "int8-mixed"),
        (most, 127, "int8-mixed"),
    )
    for values, code, kind in cases:
        products = product(kernels, kind, values, torch.full((5, 64), 2.0 * sign))
        torch.testing.assert_close(products, torch.full((5, 16), 2.0 * sign * code * 64))


@pytest.mark.parametrize("kind", [kind for kind in TOLERANCE if kind.startswith("int")])
def test_rows_of_zeros_give_zeros(kernels: Kernels, kind: str) -> None:
    assert product(kernels, kind, values_of(kind, 16, 32), torch.zeros(2, 32)).count_nonzero() == 0


def test_no_rows_give_none(kernels: Kernels) -> None:
    assert product(kernels, "float32", values_of("float32", 32, 32), torch.empty(0, 32)).shape == (0, 32)


@pytest.mark.parametrize("kind", TOLERANCE)
def test_gather_reads_rows_back_from_panels(kernels: Kernels, kind: str) -> None:
    values = values_of(kind, 37, 96)
    wanted = torch.tensor([0, 36, 8, 15, 16, 8])
    torch.testing.assert_close(
        kernels.gather(packed(kind, values, kernels), wanted), dequantise(values)[wanted], rtol=0, atol=0
    )


@pytest.mark.parametrize("kind", TOLERANCE)
def test_concatenate_joins_rows(kind: str) -> None:
    parts = [values_of(kind, outputs, 32, seed=outputs) for outputs in (5, 16)]
    assert torch.equal(dequantise(concatenate(parts)), torch.cat([dequantise(part) for part in parts]))


@pytest.mark.parametrize("kind", TOLERANCE)
def test_interleave_alternates_the_halves(kind: str) -> None:
    values = values_of(kind, 32, 32)
    first, second = dequantise(values).view(2, 16, 32)
    assert torch.equal(dequantise(interleave(values, 8)), torch.cat([first[:8], second[:8], first[8:], second[8:]]))


def test_int8_codes_are_near_the_weight() -> None:
    weight = torch.randn(8, 64)
    step = weight.view(8, 2, 32).abs().amax(-1) / 127
    assert ((Int8Values.of(weight).dequantise() - weight).abs().view(8, 2, 32) <= step[..., None] * 0.51).all()
