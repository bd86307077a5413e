"""Tests of the memory of packed weights."""

from __future__ import annotations

import torch

from inference_worker.engine.native.weight_arena import ALIGNMENT, WeightArena


def test_store_returns_an_equal_copy() -> None:
    memory, weight = WeightArena(), torch.arange(12, dtype=torch.float16).view(3, 4)
    kept = memory.store(weight)
    weight.zero_()
    assert kept.dtype == torch.float16
    assert kept.tolist() == torch.arange(12.0).view(3, 4).tolist()


def test_weights_are_contiguous_and_aligned_to_cache_lines() -> None:
    memory = WeightArena()
    first, second = memory.store(torch.ones(100, dtype=torch.uint8)), memory.store(torch.ones(8, dtype=torch.uint8))
    assert first.data_ptr() % ALIGNMENT == 0
    assert second.data_ptr() - first.data_ptr() == 128


def test_a_full_slab_is_followed_by_one_that_is_long_enough() -> None:
    memory = WeightArena(slab_bytes=256)
    kept = [memory.store(torch.full((size,), value, dtype=torch.uint8)) for value, size in enumerate((200, 100, 1000))]
    assert [(len(weight), weight.unique().tolist()) for weight in kept] == [(200, [0]), (100, [1]), (1000, [2])]
    assert all(weight.data_ptr() % ALIGNMENT == 0 for weight in kept)
