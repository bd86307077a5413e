"""Where packed weights lie."""

from __future__ import annotations

import torch

from inference_worker.engine.native.weight_arena import ALIGNMENT, WeightArena


def test_what_is_kept_is_a_copy_with_its_shape_and_numbers() -> None:
    memory, weight = WeightArena(), torch.arange(12, dtype=torch.float16).view(3, 4)
    kept = memory.store(weight)
    weight.zero_()
    assert kept.dtype == torch.float16
    assert kept.tolist() == torch.arange(12.0).view(3, 4).tolist()


def test_weights_lie_one_behind_the_other_each_at_the_begin_of_a_cache_line() -> None:
    memory = WeightArena()
    first, second = memory.store(torch.ones(100, dtype=torch.uint8)), memory.store(torch.ones(8, dtype=torch.uint8))
    assert first.data_ptr() % ALIGNMENT == 0
    assert second.data_ptr() - first.data_ptr() == 128


def test_a_slab_that_is_full_is_followed_by_another_as_long_as_is_needed() -> None:
    memory = WeightArena(slab_bytes=256)
    kept = [memory.store(torch.full((size,), value, dtype=torch.uint8)) for value, size in enumerate((200, 100, 1000))]
    assert [(len(weight), weight.unique().tolist()) for weight in kept] == [(200, [0]), (100, [1]), (1000, [2])]
    assert all(weight.data_ptr() % ALIGNMENT == 0 for weight in kept)
