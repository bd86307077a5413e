"""Tests of the int8 KV cache: values are rounded to 127ths of each vector's largest magnitude."""

from __future__ import annotations

import pytest
import torch

from inference_worker.engine.kv_cache import KVCache, KVCacheShape, dequantise, quantise

CPU = torch.device("cpu")


def test_a_vector_is_as_long_as_its_codes_and_their_scale() -> None:
    shape = KVCacheShape(layers=2, kv_heads=3, head_size=64, block_size=16, dtype=torch.int8)
    assert shape.bytes_per_block == 2 * 2 * 16 * 3 * (64 + 4)
    assert KVCache(shape, 5, CPU).keys[1].shape == (5, 16, 3, 68)


@pytest.mark.parametrize("size", [1, 16, 80])
def test_each_vector_has_a_scale_of_its_own(size: int) -> None:
    vectors = torch.randn(50, 2, size) * torch.logspace(-6, 6, 50)[:, None, None]
    error = (dequantise(quantise(vectors)) - vectors).abs()
    assert (error <= vectors.abs().amax(-1, keepdim=True) * (0.5 / 127 + 1e-6)).all()


def test_requantising_changes_nothing() -> None:
    """Dequantising and quantising an int8 cache again loses nothing more."""
    once = quantise(torch.randn(200, 3, 64))
    assert torch.equal(quantise(dequantise(once))[..., :64], once[..., :64])


def test_zeros_are_zeros() -> None:
    assert not dequantise(quantise(torch.zeros(2, 16))).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8])
def test_a_block_is_written_copied_and_read(dtype: torch.dtype) -> None:
    cache = KVCache(KVCacheShape(2, 3, 16, 4, dtype), 6, CPU)
    key, value = torch.randn(2, 5, 3, 16).to(torch.float16 if dtype is torch.int8 else dtype)
    cache.write(1, torch.tensor([8, 9, 10, 11, 3]), key, value)
    cache.copy_blocks(torch.tensor([2]), torch.tensor([5]))
    for found, written in zip(cache.read(1, torch.tensor([5])), (key, value), strict=True):
        torch.testing.assert_close(found[0].to(key.dtype), written[:4], rtol=0, atol=0.02 if dtype is torch.int8 else 0)
    assert not any(side.any() for side in cache.read(0, torch.tensor([5])))
