"""GGUF blocks of every kind that people download are repacked without error, or with a bounded one."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind

from inference_worker.engine.native.library import Kernels
from inference_worker.engine.native.packing import Int4Values, Int8Values, pack
from inference_worker.engine.weights.gguf_blocks import dequantise, is_quantised, unpack
from inference_worker.errors import BadWeights
from inference_worker.settings import ActivationBits

ROWS, INPUTS = 48, 512
FLOAT16_AT = {
    Kind.Q4_0: [0], Kind.Q4_1: [0, 2], Kind.Q5_0: [0], Kind.Q5_1: [0, 2], Kind.Q8_0: [0],
    Kind.Q2_K: [80, 82], Kind.Q3_K: [108], Kind.Q4_K: [0, 2], Kind.Q5_K: [0, 2], Kind.Q6_K: [208],
    Kind.IQ4_NL: [0], Kind.IQ4_XS: [0], Kind.IQ3_S: [0],
}  # fmt: skip
"""Where a block of each kind has its float16 numbers."""
INT4 = [Kind.Q4_0, Kind.Q4_1, Kind.Q4_K]
EXACT = [*INT4, Kind.Q8_0, Kind.Q5_0, Kind.Q3_K, Kind.IQ4_NL, Kind.IQ4_XS, Kind.MXFP4]
ROUNDED = [Kind.Q5_1, Kind.Q5_K, Kind.Q2_K, Kind.IQ3_S]


def blocks(kind: Kind) -> np.ndarray:
    """Every code and every scale of a block at random, with scales of blocks as models have them."""
    random = np.random.default_rng(11)
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = random.integers(0, 256, (ROWS * INPUTS // block, size), np.uint8)
    for at in FLOAT16_AT.get(kind, []):
        raw[:, at : at + 2] = random.uniform(1e-4, 2e-4, (len(raw), 1)).astype(np.float16).view(np.uint8)
    if kind == Kind.MXFP4:
        raw[:, 0] = random.integers(115, 122, len(raw))
    return raw.reshape(-1)


def weights(kind: Kind) -> torch.Tensor:
    return torch.from_numpy(dequantise(blocks(kind), kind)).view(ROWS, INPUTS)


@pytest.mark.parametrize("kind", EXACT, ids=lambda kind: kind.name)
def test_codes_and_scales_stand_for_the_same_weights(kind: Kind) -> None:
    values = unpack(blocks(kind), kind, ROWS)
    assert type(values) is (Int4Values if kind in INT4 else Int8Values)
    assert torch.equal(values.dequantise(), weights(kind))


def test_q6_k_is_exact_for_the_larger_scale_and_near_for_the_other() -> None:
    raw, expected = blocks(Kind.Q6_K), weights(Kind.Q6_K)
    values = unpack(raw, Kind.Q6_K, ROWS)
    error = (values.dequantise() - expected).view(-1, 2, 16).abs().amax(dim=-1)
    scales = torch.from_numpy(raw.reshape(-1, 210)[:, 192:208].copy().view(np.int8)).view(-1, 2).float().abs()
    blocks_scale = torch.from_numpy(raw.reshape(-1, 210)[:, 208:].copy().view(np.float16).astype(np.float32))
    larger = scales.amax(dim=-1) * blocks_scale.repeat_interleave(8, dim=0)[:, 0]
    opposite = scales[:, 0] == scales[:, 1]
    assert (error.amin(dim=-1) <= 1e-6 * larger).all()
    assert (error.amax(dim=-1) <= torch.where(opposite, larger / 4, larger / 8) * (1 + 1e-5)).all()
    assert (values.dequantise() - expected).norm() / expected.norm() < 0.005


@pytest.mark.parametrize("kind", ROUNDED, ids=lambda kind: kind.name)
def test_the_error_of_other_kinds_is_bounded_by_the_largest_weight(kind: Kind) -> None:
    values, expected = unpack(blocks(kind), kind, ROWS), weights(kind)
    assert type(values) is Int8Values
    error = (values.dequantise() - expected).view(-1, 32).abs().amax(dim=-1)
    assert (error <= expected.view(-1, 32).abs().amax(dim=-1) / 254 * 1.01).all()
    assert (values.dequantise() - expected).norm() / expected.norm() < 0.006


@pytest.mark.parametrize("kind", [*EXACT, Kind.Q6_K, *ROUNDED], ids=lambda kind: kind.name)
def test_the_kernels_weights_are_those_of_the_file(kind: Kind) -> None:
    """Scales and minimums as float16 cost 1/2048 of a code and of a minimum at most."""
    kernels, values = Kernels(1), unpack(blocks(kind), kind, ROWS)
    packed = pack(values, panel=kernels.panel)
    expected = values.dequantise()
    found = kernels.gather(packed, torch.arange(ROWS))
    largest = values.codes.view(-1, 32).float().abs().amax(dim=-1) * values.scales.view(-1).abs()
    if isinstance(values, Int4Values):
        largest += values.minimums.view(-1).abs()
    bound = (largest / 2048 + 128 * 2**-25)[:, None]  # the smallest float16 are multiples of 2^-24
    assert ((found - expected).view(-1, 32).abs() <= bound).all()
    assert (found - weights(kind)).norm() / weights(kind).norm() < 0.006
    x = torch.randn(5, INPUTS, generator=torch.Generator().manual_seed(1))
    product = x @ weights(kind).T
    bounds: dict[ActivationBits, float] = {16: 0.006, "auto": 0.02, 8: 0.02}
    for bits, allowed in bounds.items():
        narrow = pack(values, panel=kernels.panel, activation_bits=bits)
        assert (kernels.linear(narrow, x) - product).norm() / product.norm() < allowed


def test_matrices_are_repacked_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = unpack(blocks(Kind.Q4_K), Kind.Q4_K, ROWS)
    monkeypatch.setattr("inference_worker.engine.weights.gguf_blocks._AT_ONCE", 5 * INPUTS)
    parts = unpack(blocks(Kind.Q4_K), Kind.Q4_K, ROWS)
    assert all(torch.equal(a, b) for a, b in zip(vars(whole).values(), vars(parts).values(), strict=True))


@pytest.mark.parametrize("kind", [Kind.Q4_K, Kind.Q6_K, Kind.Q8_0, Kind.Q5_K], ids=lambda kind: kind.name)
@pytest.mark.parametrize("scale", [np.inf, np.nan, 60000.0])
def test_scales_that_are_not_finite_are_refused(kind: Kind, scale: float) -> None:
    raw = blocks(kind).reshape(-1, gguf.GGML_QUANT_SIZES[kind][1])
    at = FLOAT16_AT[kind][0]
    raw[3, at : at + 2] = np.array([scale], np.float16).view(np.uint8)
    if kind == Kind.Q8_0 and scale == 60000.0:
        assert isinstance(unpack(raw.reshape(-1), kind, ROWS), Int8Values)
        return
    with pytest.raises(BadWeights, match="not finite"):
        unpack(raw.reshape(-1), kind, ROWS)


@pytest.mark.parametrize(
    ("kind", "shape", "expected"),
    [
        (Kind.Q4_K, (4, 256), True),
        (Kind.Q8_0, (4, 32), True),
        (Kind.F16, (4, 256), False),
        (Kind.BF16, (4, 256), False),
        (Kind.Q4_K, (256,), False),
        (Kind.MXFP4, (2, 4, 32), False),
    ],
)
def test_quantised_matrices_are_repacked(kind: Kind, shape: tuple[int, ...], expected: bool) -> None:
    assert is_quantised(kind, shape) is expected
