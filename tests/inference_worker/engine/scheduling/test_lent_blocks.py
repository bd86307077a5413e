"""Tests of two models' blocks in one pool: what is lent, guaranteed, returned and forgotten."""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import chain

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from inference_worker.engine.scheduling.lent_blocks import LentBlockManager
from inference_worker.engine.scheduling.memory_pool import MemoryPool
from inference_worker.engine.scheduling.prefix_cache import PrefixCache
from inference_worker.engine.sequence import Sequence
from router.messages import SamplingParams

SIZE = 2
"""Tokens of a block."""


class Model:
    """A model's block manager, its prefix cache, its live sequences, and the blocks whose memory is committed."""

    def __init__(
        self, pool: MemoryPool, *, capacity: int, extent: int, bytes_per_block: int, guaranteed: int = 0
    ) -> None:
        self.cache = PrefixCache()
        self.extent, self.bytes_per_block, self.guaranteed = extent, bytes_per_block, guaranteed
        self.blocks = LentBlockManager(
            capacity,
            SIZE,
            self.cache,
            pool,
            extent=extent,
            bytes_per_block=bytes_per_block,
            guaranteed=guaranteed,
            discard=self.discard,
        )
        self.sequences: list[Sequence] = []
        self.committed: set[int] = set()

    def discard(self, first: int, count: int) -> None:
        assert first % self.extent == 0
        assert count == self.extent
        gone = set(range(first, first + count))
        assert gone.isdisjoint(self.live)
        assert not any(block in self.cache for block in gone)
        self.committed -= gone

    @property
    def live(self) -> set[int]:
        """Blocks of live sequences."""
        return set(chain.from_iterable(each.block_table for each in self.sequences))

    @property
    def lent(self) -> int:
        """Bytes of the extents that have committed memory."""
        return len({block // self.extent for block in self.committed}) * self.extent * self.bytes_per_block

    def admit(self, ids: list[int]) -> Sequence | None:
        """Admit a sequence and compute it, if there is room."""
        one = Sequence("r", 0, array("q", ids), len(ids), SamplingParams(seed=0), 9)
        prefix = self.blocks.find_prefix(one)
        if not self.blocks.can_admit(one, prefix):
            return None
        self.blocks.adopt(one, prefix)
        self.sequences.append(one)
        self.compute(one, len(ids))
        return one

    def compute(self, one: Sequence, end: int) -> None:
        self.blocks.extend(one, end)
        self.committed.update(one.block_table)
        one.computed = end
        self.blocks.publish(one)

    def end(self, one: Sequence) -> None:
        self.sequences.remove(one)
        self.blocks.release(one)


def test_idle_memory_moves_to_the_model_that_needs_it_and_back() -> None:
    pool = MemoryPool(8, 2)
    first, second = (Model(pool, capacity=8, extent=2, bytes_per_block=1) for _ in range(2))
    long = first.admit([1] * 15)
    assert long is not None
    assert (first.blocks.used, first.blocks.num_blocks, pool.lent) == (8, 8, 8)
    assert second.admit([2, 2]) is None
    first.end(long)
    assert pool.lent == 8
    assert second.admit([2] * 7) is not None
    assert (first.blocks.used, second.blocks.used, pool.lent) == (0, 4, 8)
    assert first.admit([1] * 15) is None
    assert first.admit([1] * 7) is not None


def test_the_least_recently_used_prefix_is_forgotten_first() -> None:
    pool = MemoryPool(8, 2)
    first, second = (Model(pool, capacity=8, extent=2, bytes_per_block=1) for _ in range(2))
    old, new = first.admit([1] * 8), first.admit([3] * 8)
    assert old is not None
    assert new is not None
    first.end(old)
    first.end(new)
    assert second.admit([2] * 7) is not None
    again = [Sequence("r", 0, array("q", ids), 9, SamplingParams(seed=0), 9) for ids in ([1] * 9, [3] * 9)]
    assert [len(first.blocks.find_prefix(each)) for each in again] == [0, 4]


def test_spare_memory_is_borrowed_before_prefixes_are_evicted() -> None:
    pool = MemoryPool(8, 2)
    first = Model(pool, capacity=8, extent=2, bytes_per_block=1)
    for word in (1, 3):
        one = first.admit([word] * 4)
        assert one is not None
        first.end(one)
    assert pool.lent == 4
    again = Sequence("r", 0, array("q", [1] * 5), 5, SamplingParams(seed=0), 9)
    assert len(first.blocks.find_prefix(again)) == 2


def test_a_request_that_can_not_be_admitted_takes_nothing_from_the_other() -> None:
    pool = MemoryPool(8, 2)
    first, second = (Model(pool, capacity=8, extent=2, bytes_per_block=1) for _ in range(2))
    kept, held = first.admit([1] * 4), first.admit([3] * 4)
    assert kept is not None
    assert held is not None
    first.end(kept)
    assert second.admit([2] * 15) is None
    assert pool.lent == 4
    again = Sequence("r", 0, array("q", [1] * 5), 5, SamplingParams(seed=0), 9)
    assert len(first.blocks.find_prefix(again)) == 2


def test_a_guarantee_is_at_most_a_share() -> None:
    with pytest.raises(ValueError, match="guarantee"):
        Model(MemoryPool(8, 2), capacity=8, extent=2, bytes_per_block=1, guaranteed=5)


class TwoModels(RuleBasedStateMachine):
    """Sequences of two models begin, grow, fork and end in any order."""

    @initialize(
        total=st.integers(24, 60),
        extents=st.tuples(st.integers(1, 3), st.integers(1, 3)),
        sizes=st.tuples(st.integers(1, 3), st.integers(1, 3)),
        guarantees=st.tuples(st.integers(0, 1), st.integers(0, 1)),
    )
    def make(self, total: int, extents: tuple[int, int], sizes: tuple[int, int], guarantees: tuple[int, int]) -> None:
        self.pool = MemoryPool(total, 2)
        self.models = [
            Model(
                self.pool,
                capacity=total // (extent * size) * extent,
                extent=extent,
                bytes_per_block=size,
                guaranteed=guaranteed * extent,
            )
            for extent, size, guaranteed in zip(extents, sizes, guarantees, strict=True)
        ]

    @rule(which=st.integers(0, 1), ids=st.lists(st.integers(0, 1), min_size=1, max_size=12))
    def begin(self, which: int, ids: list[int]) -> None:
        model = self.models[which]
        if model.admit(ids) is None:
            assert -(-len(ids) // SIZE) + len(model.live) > model.guaranteed

    @precondition(lambda self: any(model.sequences for model in self.models))
    @rule(data=st.data(), more=st.integers(1, 5))
    def grow(self, data: st.DataObject, more: int) -> None:
        model = data.draw(st.sampled_from([each for each in self.models if each.sequences]))
        one = data.draw(st.sampled_from(model.sequences))
        end = len(one.token_ids) + more
        if model.blocks.can_extend(one, end):
            one.token_ids.extend([0] * more)
            model.compute(one, end)

    @precondition(lambda self: any(model.sequences for model in self.models))
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        model = data.draw(st.sampled_from([each for each in self.models if each.sequences]))
        parent = data.draw(st.sampled_from(model.sequences))
        child = Sequence("r", 1, parent.token_ids[:], parent.prompt_length, SamplingParams(seed=0), 9)
        model.blocks.fork(parent, child)
        model.sequences.append(child)

    @precondition(lambda self: any(model.sequences for model in self.models))
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        model = data.draw(st.sampled_from([each for each in self.models if each.sequences]))
        model.end(data.draw(st.sampled_from(model.sequences)))

    @invariant()
    def the_pool_lends_no_more_than_it_has(self) -> None:
        assert sum(model.lent for model in self.models) <= self.pool.lent <= self.pool.total

    @invariant()
    def no_block_is_in_two_places(self) -> None:
        for model in self.models:
            holders = Counter(chain.from_iterable(set(each.block_table) for each in model.sequences))
            free = set(model.blocks._free)
            assert free.isdisjoint(holders)
            assert [model.blocks._references[block] for block in holders] == list(holders.values())
            assert model.blocks.used == len(holders)
            unlent = {number * model.extent + i for number in model.blocks._unlent for i in range(model.extent)}
            assert unlent.isdisjoint(free | set(holders))

    @invariant()
    def live_blocks_are_committed_and_cached_ones_lent(self) -> None:
        for model in self.models:
            assert model.live <= model.committed
            assert set(model.cache._hash_of) <= model.live | set(model.blocks._free)


TwoModels.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTwoModels = TwoModels.TestCase
