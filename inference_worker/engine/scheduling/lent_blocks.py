"""Allocates KV cache blocks in extents that a memory pool lends, for a model that shares its memory with another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from inference_worker.engine.scheduling.block_manager import BlockManager
from inference_worker.engine.scheduling.memory_pool import Borrower, MemoryPool
from inference_worker.engine.scheduling.prefix_cache import PrefixCache


class LentBlockManager(BlockManager):
    """A block manager whose blocks are lent by a pool, an extent at a time, and returned when another model asks.

    It borrows what the pool has to spare before it evicts cached prefixes, and evicts its own before it asks for those
    of another model. A check such as `can_extend` borrows the blocks whose number it confirms.
    """

    def __init__(
        self,
        capacity: int,
        block_size: int,
        cache: PrefixCache,
        pool: MemoryPool,
        *,
        extent: int,
        bytes_per_block: int,
        guaranteed: int,
        discard: Callable[[int, int], None],
    ) -> None:
        """Create a block manager that holds no blocks, and add it to `pool`.

        Args:
            capacity: number of blocks for which the cache has addresses.
            block_size: tokens of a block.
            cache: the model's prefix cache.
            pool: lends the extents.
            extent: number of blocks of an extent.
            bytes_per_block: bytes of a block in all layers.
            guaranteed: number of blocks that stay available to this model.
            discard: frees the memory of a run of blocks, given the first and their number.
        """
        super().__init__(0, block_size, cache)
        self._references = [0] * capacity
        self._extent = extent
        self._discard = discard
        self._unlent = list(reversed(range(capacity // extent)))
        """Numbers of the extents that are not lent, the lowest last."""
        self._live = [0] * (capacity // extent)
        """Blocks of each extent that live sequences hold."""
        self._busy = 0
        """Number of extents with such blocks."""
        self._pool = pool
        self._borrower = _Extents(self, extent * bytes_per_block, -(-guaranteed // extent), capacity // extent)
        pool.join(self._borrower)

    @property
    def num_blocks(self) -> int:
        """Number of cache blocks that sequences can hold together at most, when other models have their guarantees."""
        return self._pool.limit(self._borrower) * self._extent

    @property
    def used(self) -> int:
        """Number of cache blocks that live sequences hold."""
        return self._borrower.held * self._extent - len(self._free)

    @property
    def idle_extents(self) -> int:
        """Number of lent extents in which no live sequence has a block."""
        return self._borrower.held - self._busy

    def return_extents(self, count: int) -> None:
        """Return `count` idle extents to the pool: first those without cached blocks, then the least recently used."""
        if not count:
            return
        seen: Counter[int] = Counter()
        returned = []
        for block in self._free:
            number = block // self._extent
            seen[number] += 1
            if seen[number] == self._extent:
                returned.append(number)
                if len(returned) == count:
                    break
        for number in returned:
            first = number * self._extent
            for block in range(first, first + self._extent):
                del self._free[block]
                self._cache.evict(block)
            self._discard(first, self._extent)
        self._unlent += returned
        self._borrower.held -= count

    def _has_free(self, count: int) -> bool:
        missing = -(-(count - len(self._free)) // self._extent)
        if missing <= 0:
            return True
        if missing > self._pool.obtainable(self._borrower):
            return False
        self._borrow(missing)
        return True

    def _borrow(self, count: int) -> None:
        self._pool.lend(self._borrower, count)
        for _ in range(count):
            first = self._unlent.pop() * self._extent
            for block in reversed(range(first, first + self._extent)):
                self._free[block] = None
                self._free.move_to_end(block, last=False)

    def _take(self) -> int:
        if next(iter(self._free)) in self._cache and self._pool.spare(self._borrower):
            self._borrow(1)
        block = super()._take()
        self._hold(block)
        return block

    def _hold(self, block: int) -> None:
        number = block // self._extent
        self._busy += not self._live[number]
        self._live[number] += 1

    def _acquire(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            if not self._references[block]:
                self._hold(block)
            super()._acquire((block,))

    def _release(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            super()._release((block,))
            if not self._references[block]:
                number = block // self._extent
                self._live[number] -= 1
                self._busy -= not self._live[number]


class _Extents(Borrower):
    """The extents that a pool lends to a block manager."""

    def __init__(self, blocks: LentBlockManager, extent_bytes: int, guaranteed: int, most: int) -> None:
        super().__init__(extent_bytes, guaranteed, most)
        self._blocks = blocks

    def _idle_extents(self) -> int:
        return self._blocks.idle_extents

    def return_extents(self, count: int) -> None:
        self._blocks.return_extents(count)
