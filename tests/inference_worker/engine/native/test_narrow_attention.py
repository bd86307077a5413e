"""Tests of prefill attention in integers over caches of 16 or 8 bits: accurate and without overflow."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from inference_worker.engine.attention.reference import ReferenceAttention
from inference_worker.engine.attention_backend import AttentionInputs
from inference_worker.engine.kv_cache import dequantise, quantise
from inference_worker.engine.native.library import Kernels
from tests.inference_worker.engine.attention.test_attention import make_cache, make_metadata


@pytest.fixture
def kernels(instructions: str) -> Kernels:
    return Kernels(2, instructions)


ERRORS = {True: (2e-2, 1e-1), False: (5e-4, 5e-3)}
"""Of all the outputs at most, and of one head of one row: with bytes, and with 13 bits, which are like float16."""


def as_kept(vectors: Tensor, dtype: torch.dtype) -> Tensor:
    return dequantise(quantise(vectors)) if dtype is torch.int8 else vectors.to(dtype).float()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("window", [None, 30])
@pytest.mark.parametrize(("softcap", "with_sinks"), [(None, False), (3.0, False), (None, True), (3.0, True)])
def test_the_error_is_that_of_the_bits(
    kernels: Kernels, dtype: torch.dtype, window: int | None, softcap: float | None, with_sinks: bool
) -> None:
    metadata = make_metadata([(0, 200), (77, 65), (130, 1), (0, 5)], 16, 40, seed=1)
    generator = torch.Generator().manual_seed(2)
    query, key, value = (torch.randn(271, heads, 80, generator=generator) for heads in (6, 2, 2))
    key *= torch.logspace(-1, 1, 271)[:, None, None]  # tokens differ in size
    sinks = torch.tensor([-2.0, 0.0, 1.0, 3.0, -9.0, 5.0]) if with_sinks else None
    inputs = AttentionInputs(0, query, as_kept(key, dtype), as_kept(value, dtype), 0.1, window, softcap, sinks)
    wide, narrow = (make_cache(16, 2, 80, 40, seed=3, dtype=held) for held in (torch.float32, dtype))
    wide.keys[0], wide.values[0] = (side.float() for side in narrow.read(0, torch.arange(40)))
    expected = ReferenceAttention(wide).forward(inputs, metadata)
    error = kernels.attention(narrow, inputs, metadata, bits=8) - expected
    whole, row = ERRORS[kernels.multiplies_bytes]
    assert error.norm() / expected.norm() < whole
    # An error that all scores of a row share does not cancel if the row has a sink.
    assert (error.norm(dim=-1) / expected.norm(dim=-1)).max() < row * (3 if with_sinks else 1)


def test_one_large_weight_does_not_round_the_others_away(kernels: Kernels) -> None:
    """A first token with most of the weight has small values, as in trained models; other tokens must still count."""
    metadata = make_metadata([(0, 64)], 16, 4, seed=1)
    generator = torch.Generator().manual_seed(2)
    query, key, value = (torch.randn(64, 1, 64, generator=generator) for _ in range(3))
    query[:, :, 0], key[:, :, 0] = 8.0, 0.0
    key[0, :, 0], value[0] = 8.0, value[0] / 1000
    narrow, wide = (make_cache(16, 1, 64, 4, seed=3, dtype=held) for held in (torch.float16, torch.float32))
    inputs = AttentionInputs(0, query, key, value, 0.125)
    expected = ReferenceAttention(wide).forward(inputs, metadata)
    found = kernels.attention(narrow, inputs, metadata, bits=8)
    assert (found - expected)[1:].norm() / expected[1:].norm() < 5e-2


@pytest.mark.parametrize("size", [16, 64, 128, 256])
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_do_not_overflow(kernels: Kernels, size: int, sign: int) -> None:
    """All numbers at their largest."""
    metadata = make_metadata([(0, 192)], 16, 12, seed=1)
    query = torch.full((192, 1, size), 2.0)
    cache = make_cache(16, 1, size, 12, seed=1, dtype=torch.float16)
    inputs = AttentionInputs(0, query, sign * query, sign * query, 1.0)
    output = kernels.attention(cache, inputs, metadata, bits=8)
    torch.testing.assert_close(output, sign * query, rtol=1e-3, atol=0)


def test_zeros_give_zeros(kernels: Kernels) -> None:
    metadata = make_metadata([(0, 70)], 16, 5, seed=1)
    cache, zeros = make_cache(16, 1, 32, 5, seed=1, dtype=torch.float16), torch.zeros(70, 1, 32)
    inputs = AttentionInputs(0, zeros, zeros, zeros, 1.0)
    assert not kernels.attention(cache, inputs, metadata, bits=8).any()
