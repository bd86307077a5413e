"""Tests of the number of cache blocks for a given memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from inference_worker.engine.execution.cache_size import CPU_MAX_BYTES, available_memory, count_blocks
from inference_worker.engine.kv_cache import KVCacheShape
from inference_worker.errors import ModelError
from inference_worker.settings import EngineSettings

CPU = torch.device("cpu")
SHAPE = KVCacheShape(layers=2, kv_heads=2, head_size=8, block_size=16, dtype=torch.float32)
SETTINGS = EngineSettings("m", max_num_seqs=4)


def test_memory_is_divided_into_blocks() -> None:
    assert SHAPE.bytes_per_block == 4096
    assert count_blocks(replace(SETTINGS, kv_cache_memory=10_000), SHAPE, 1000, CPU) == 2


def test_no_more_than_all_sequences_can_fill() -> None:
    assert count_blocks(SETTINGS, SHAPE, 33, CPU) == 4 * 3


def test_a_set_number_is_taken_as_it_is() -> None:
    assert count_blocks(replace(SETTINGS, num_kv_blocks=7, kv_cache_memory=1), SHAPE, 33, CPU) == 7


def test_no_room_for_a_single_block() -> None:
    with pytest.raises(ModelError, match="4096"):
        count_blocks(replace(SETTINGS, kv_cache_memory=4095), SHAPE, 1000, CPU)


def test_the_share_of_a_cpu_is_bounded() -> None:
    assert 0 < available_memory(CPU) <= CPU_MAX_BYTES
