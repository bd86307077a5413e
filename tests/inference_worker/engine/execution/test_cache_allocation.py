"""Tests of KV caches whose memory is lent by a pool: guarantees, limits and contexts."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
import torch

from inference_worker.engine.execution.cache_allocation import allocate_cache
from inference_worker.engine.kv_cache import KVCacheShape
from inference_worker.engine.lent_kv_cache import extent_blocks
from inference_worker.engine.scheduling.memory_pool import MemoryPool
from inference_worker.engine.scheduling.prefix_cache import PrefixCache
from inference_worker.engine.sequence import Sequence
from inference_worker.errors import ModelError
from inference_worker.settings import EngineSettings
from router.messages import SamplingParams

SETTINGS = EngineSettings("m", max_num_seqs=8)
SMALL = KVCacheShape(layers=4, kv_heads=4, head_size=64, block_size=16, dtype=torch.float16)
LARGE = replace(SMALL, layers=6, dtype=torch.float32)
MIB = 2**20


def test_each_model_gets_what_the_other_is_not_guaranteed_and_keeps_room_for_a_sequence() -> None:
    pool = MemoryPool(16 * MIB, 2)
    first, second = (allocate_cache(SETTINGS, shape, 256, PrefixCache(), pool) for shape in (SMALL, LARGE))
    assert (first.max_model_len, second.max_model_len) == (256, 256)
    promised = {shape: -(-16 // extent_blocks(shape)) * extent_blocks(shape) for shape in (SMALL, LARGE)}
    for own, shape, other in ((first, SMALL, LARGE), (second, LARGE, SMALL)):
        extent = extent_blocks(shape)
        most = (16 * MIB - promised[other] * other.bytes_per_block) // (extent * shape.bytes_per_block) * extent
        assert own.blocks.num_blocks == min(8 * 16, most)
        assert own.cache.num_blocks >= own.blocks.num_blocks
    long = Sequence("r", 0, array("q", [1] * first.blocks.num_blocks * 16), 1, SamplingParams(seed=0), 9)
    assert first.blocks.can_admit(long, [])
    first.blocks.extend(long, len(long.token_ids))
    full = Sequence("s", 0, array("q", [1] * 256), 1, SamplingParams(seed=0), 9)
    assert second.blocks.can_admit(full, [])


def test_a_context_is_shortened_to_half_of_the_memory() -> None:
    pool = MemoryPool(16 * MIB, 2)
    made = allocate_cache(SETTINGS, LARGE, 8192, PrefixCache(), pool)
    extent = extent_blocks(LARGE)
    assert made.max_model_len == 8 * MIB // (extent * LARGE.bytes_per_block) * extent * 16


def test_no_room_for_an_extent_of_each_model() -> None:
    with pytest.raises(ModelError, match="for each model"):
        allocate_cache(SETTINGS, LARGE, 8192, PrefixCache(), MemoryPool(MIB, 2))
