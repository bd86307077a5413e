"""Tests of the KV waste: slots of used blocks that hold no token."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from inference_worker.engine.batch import Batch, ScheduledSequence
from inference_worker.engine.scheduling.block_manager import BlockManager
from inference_worker.engine.scheduling.counters import Counters, used_token_slots
from inference_worker.engine.scheduling.prefix_cache import NoPrefixCache
from inference_worker.engine.sequence import Sequence
from inference_worker.engine_protocol import EngineLoad
from inference_worker.worker.load_metrics import kv_waste
from router.messages import SamplingParams


def sequence(length: int) -> Sequence:
    return Sequence("r", 0, array("q", range(length)), length, SamplingParams(seed=0), 10)


def compute(blocks: BlockManager, one: Sequence, end: int) -> None:
    blocks.extend(one, end)
    one.computed = end


def waste(blocks: BlockManager, running: list[Sequence]) -> float:
    held = used_token_slots(running, blocks)
    return kv_waste(EngineLoad(kv_slots_held=blocks.used * blocks.block_size, kv_tokens_held=held))


@pytest.mark.parametrize("length", [1, 15, 16, 17, 160])
def test_only_the_end_of_the_last_block_is_wasted(length: int) -> None:
    blocks, one = BlockManager(100, 16, NoPrefixCache()), sequence(length)
    compute(blocks, one, length)
    assert used_token_slots([one], blocks) == length
    assert waste(blocks, [one]) == pytest.approx((-length % 16) / (length + -length % 16))


def test_shared_blocks_count_once() -> None:
    blocks, one, other = BlockManager(100, 16, NoPrefixCache()), sequence(100), sequence(100)
    compute(blocks, one, 40)
    blocks.fork(one, other)
    assert used_token_slots([one, other], blocks) == 40
    compute(blocks, other, 41)
    assert used_token_slots([one, other], blocks) == 40 + 9


def test_sequences_of_128_to_1024_tokens_waste_less_than_a_twenty_fifth_at_every_moment() -> None:
    blocks = BlockManager(5000, 16, NoPrefixCache())
    lengths = np.random.default_rng(0).integers(128, 1025, 64).tolist()
    running = [sequence(length) for length in lengths]
    for one, length in zip(running, lengths, strict=True):
        compute(blocks, one, length // 2)  # the prompt
    worst = waste(blocks, running)
    for _ in range(512):
        for one, length in zip(running, lengths, strict=True):
            compute(blocks, one, min(one.computed + 1, length))
        worst = max(worst, waste(blocks, running))
    assert 0.005 < worst < 0.04


def test_an_empty_cache_has_no_waste() -> None:
    assert kv_waste(EngineLoad()) == 0


def test_steps_count_the_tokens_they_compute() -> None:
    counters, one = Counters(), sequence(8)
    for count in (5, 1):
        counters.count_step(Batch([ScheduledSequence(one, 0, count), ScheduledSequence(one, 0, 1)]))
    assert (counters.steps, counters.step_tokens) == (2, 8)
