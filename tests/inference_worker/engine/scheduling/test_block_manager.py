"""Tests of reference counts, copy-on-write and the order of eviction."""

from __future__ import annotations

from array import array

from inference_worker.engine.batch import BlockCopy
from inference_worker.engine.scheduling.block_manager import BlockManager
from inference_worker.engine.scheduling.prefix_cache import PrefixCache
from inference_worker.engine.sequence import Sequence
from router.messages import SamplingParams


def sequence(ids: list[int]) -> Sequence:
    return Sequence("r", 0, array("q", ids), len(ids), SamplingParams(seed=0), 9)


def compute(blocks: BlockManager, one: Sequence, end: int) -> list[BlockCopy]:
    copies = blocks.extend(one, end)
    one.computed = end
    blocks.publish(one)
    return copies


def test_a_write_to_a_shared_block_copies_it_once_for_each_but_the_last() -> None:
    blocks = BlockManager(8, 4, PrefixCache())
    parent, child, other = (sequence([1, 2, 3, 4, 5, 6, 7]) for _ in range(3))
    compute(blocks, parent, 6)
    for fork in (child, other):
        blocks.fork(parent, fork)
    shared = parent.block_table[1]
    assert blocks.used == 2
    assert compute(blocks, child, 7) == [BlockCopy(shared, child.block_table[1])]
    assert compute(blocks, parent, 7) == [BlockCopy(shared, parent.block_table[1])]
    assert compute(blocks, other, 7) == []
    assert other.block_table[1] == shared
    assert len({one.block_table[0] for one in (parent, child, other)}) == 1
    assert blocks.used == 4


def test_capacity_counts_the_copy() -> None:
    blocks = BlockManager(2, 4, PrefixCache())
    parent, child = sequence([1] * 7), sequence([1] * 7)
    compute(blocks, parent, 6)
    blocks.fork(parent, child)
    assert not blocks.can_extend(child, 7)
    blocks.release(parent)
    assert blocks.can_extend(child, 7)


def test_the_peak_outlasts_a_release_and_counts_shared_blocks_once() -> None:
    blocks = BlockManager(8, 4, PrefixCache())
    parent, child = sequence([1] * 12), sequence([1] * 12)
    compute(blocks, parent, 8)
    blocks.fork(parent, child)
    assert blocks.peak == 2
    compute(blocks, child, 12)
    blocks.release(child)
    blocks.release(parent)
    assert (blocks.used, blocks.peak) == (0, 3)
    compute(blocks, sequence([2] * 4), 4)
    assert (blocks.used, blocks.peak) == (1, 3)


def test_released_blocks_are_found_until_they_are_reallocated() -> None:
    blocks = BlockManager(3, 2, PrefixCache())
    first = sequence([1, 2, 3, 4, 5])
    compute(blocks, first, 5)
    head = first.block_table[:2].tolist()
    blocks.release(first)
    assert blocks.used == 0
    again = sequence([1, 2, 3, 4, 5])
    assert blocks.find_prefix(again) == head
    stranger = sequence([9, 9, 9, 9])
    compute(blocks, stranger, 4)  # the plain block, then the end of the prompt goes before its beginning
    assert blocks.find_prefix(again) == head[:1]
    assert not blocks.can_admit(again, head[:1])
    blocks.release(stranger)
    assert blocks.can_admit(again, blocks.find_prefix(again))


def test_adopted_blocks_are_held() -> None:
    blocks = BlockManager(4, 2, PrefixCache())
    first, again = sequence([1, 2, 3]), sequence([1, 2, 3])
    compute(blocks, first, 3)
    blocks.release(first)
    blocks.adopt(again, blocks.find_prefix(again))
    assert (again.computed, blocks.used) == (2, 1)
    compute(blocks, again, 3)
    blocks.release(again)
    assert blocks.used == 0
