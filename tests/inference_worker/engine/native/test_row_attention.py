"""Tests of decode attention over an int8 cache: as accurate as 16-bit queries and weights, without overflow."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from inference_worker.engine.attention.reference import ReferenceAttention
from inference_worker.engine.attention_backend import AttentionInputs
from inference_worker.engine.kv_cache import quantise
from inference_worker.engine.native.library import Kernels
from tests.inference_worker.engine.attention.test_attention import make_cache, make_metadata

BLOCKS = 40


@pytest.fixture
def kernels(instructions: str) -> Kernels:
    return Kernels(2, instructions)


def found_and_expected(
    kernels: Kernels,
    rows: tuple[Tensor, Tensor, Tensor],
    lengths: list[int],
    *,
    window: int | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """A decode step of several sequences with the given context lengths."""
    metadata = make_metadata([(length, 1) for length in lengths], 16, BLOCKS, seed=1)
    _, kv_heads, size = rows[1].shape
    caches = [make_cache(16, kv_heads, size, BLOCKS, seed=3, dtype=torch.int8) for _ in range(2)]
    inputs = AttentionInputs(0, *rows, size**-0.5, window, softcap, sinks)
    return kernels.attention(caches[1], inputs, metadata), ReferenceAttention(caches[0]).forward(inputs, metadata)


@pytest.mark.parametrize("size", [16, 48, 64, 80, 128, 256])
@pytest.mark.parametrize("group", [1, 2, 3, 4, 7])
def test_the_error_is_that_of_sixteen_bits(kernels: Kernels, size: int, group: int) -> None:
    generator = torch.Generator().manual_seed(size + group)
    lengths = [0, 2, 15, 63, 64, 200]
    query, key, value = (torch.randn(6, heads, size, generator=generator) for heads in (2 * group, 2, 2))
    found, expected = found_and_expected(kernels, (3 * query, key, value), lengths)
    assert (found - expected).norm() / expected.norm() < 1e-4


@pytest.mark.parametrize("window", [1, 5, 64, 100])
def test_a_window_masks_earlier_positions(kernels: Kernels, window: int) -> None:
    generator = torch.Generator().manual_seed(window)
    query, key, value = (torch.randn(3, heads, 64, generator=generator) for heads in (6, 2, 2))
    found, expected = found_and_expected(kernels, (query, key, value), [3, 130, 180], window=window)
    assert (found - expected).norm() / expected.norm() < 1e-4


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("sinks", [None, torch.tensor([-3.0, 0.0, 2.0, 9.0, -20.0, 1.0])])
def test_soft_caps_and_sinks(kernels: Kernels, softcap: float | None, sinks: Tensor | None) -> None:
    generator = torch.Generator().manual_seed(9)
    query, key, value = (torch.randn(3, heads, 64, generator=generator) for heads in (6, 2, 2))
    found, expected = found_and_expected(kernels, (3 * query, key, value), [0, 63, 180], softcap=softcap, sinks=sinks)
    assert (found - expected).norm() / expected.norm() < 1e-4


@pytest.mark.parametrize("size", [64, 512])
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_do_not_overflow(kernels: Kernels, size: int, sign: int) -> None:
    """All numbers at their largest, with scores of both signs: an overflow would change a sign."""
    metadata = make_metadata([(199, 1)], 16, BLOCKS, seed=1)
    caches = [make_cache(16, 1, size, BLOCKS, seed=3, dtype=torch.int8) for _ in range(2)]
    signs = torch.tensor([1.0, 1.0, -1.0]).repeat(BLOCKS * 16)[: BLOCKS * 16].view(BLOCKS, 16, 1, 1)
    for cache in caches:
        cache.keys[0].copy_(quantise(signs.expand(-1, -1, -1, size) * 2.0))
        cache.values[0].copy_(quantise(signs.expand(-1, -1, -1, size) * 3.0))
    row = torch.full((1, 1, size), 2.0)
    inputs = AttentionInputs(0, sign * row, row, row, 0.1 / size)
    expected = ReferenceAttention(caches[0]).forward(inputs, metadata)
    found = kernels.attention(caches[1], inputs, metadata)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=0)


def test_one_large_weight_does_not_round_the_others_away(kernels: Kernels) -> None:
    """A token that gets nearly all of the weight has a small value, as the first ones of trained models have."""
    generator = torch.Generator().manual_seed(5)
    query, key, value = (torch.randn(1, 1, 64, generator=generator) for _ in range(3))
    key = query * 60 / query.square().sum()  # its score is 7.5, the others' about 0
    found, expected = found_and_expected(kernels, (query, key, value / 1000), [60])
    assert (found - expected).norm() / expected.norm() < 1e-3


def test_zeros_give_zeros(kernels: Kernels) -> None:
    zeros = torch.zeros(1, 1, 64)
    found, _ = found_and_expected(kernels, (zeros, zeros, zeros), [0])
    assert not found.any()
