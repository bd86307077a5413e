"""Tests of a KV cache whose memory is returned: pages, contents and extents."""

from __future__ import annotations

import mmap

import psutil
import pytest
import torch

from inference_worker.engine.kv_cache import KVCacheShape
from inference_worker.engine.lent_kv_cache import MIN_EXTENT_BYTES, LentKVCache, extent_blocks


@pytest.mark.parametrize("heads", [1, 3, 5, 32])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8])
def test_an_extent_has_whole_pages_of_each_layer_and_the_least_number_of_blocks(heads: int, dtype: torch.dtype) -> None:
    shape = KVCacheShape(layers=3, kv_heads=heads, head_size=64, block_size=16, dtype=dtype)
    blocks = extent_blocks(shape)
    layer_bytes = shape.bytes_per_block // (2 * shape.layers)
    assert blocks * layer_bytes % mmap.PAGESIZE == 0
    assert blocks * shape.bytes_per_block >= MIN_EXTENT_BYTES
    least = next(
        count
        for count in range(1, blocks + 1)
        if count * layer_bytes % mmap.PAGESIZE == 0 and count * shape.bytes_per_block >= MIN_EXTENT_BYTES
    )
    assert blocks == least


def test_discarded_blocks_take_no_memory_and_others_keep_what_they_have() -> None:
    shape = KVCacheShape(layers=4, kv_heads=4, head_size=64, block_size=16, dtype=torch.float32)
    extent = extent_blocks(shape)
    cache = LentKVCache(shape, 64 * extent)
    process = psutil.Process()
    before = process.memory_info().rss
    for side in (cache.keys, cache.values):
        for layer in side:
            layer[:] = 1.0
    filled = process.memory_info().rss
    cache.discard(extent, 62 * extent)
    after = process.memory_info().rss
    lent = 62 * extent * shape.bytes_per_block
    assert filled - before >= lent
    assert filled - after >= 0.9 * lent
    for side in (cache.keys, cache.values):
        for layer in side:
            assert layer[:extent].eq(1).all()
            assert layer[63 * extent :].eq(1).all()
            assert layer[extent : 63 * extent].eq(0).all()
