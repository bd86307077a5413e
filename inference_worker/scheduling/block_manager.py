"""Who holds which KV block: reference counts, prefix reuse, copy-on-write and the list of free blocks.

Kwon et al. 2023 (PagedAttention), sections 4.2-4.4. Counts blocks only; the bytes are in `execution/kv_cache.py`, and
who may have a block is the scheduler's decision.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable

from inference_worker.batch import BlockCopy
from inference_worker.scheduling.prefix_cache import PrefixCache, extend_hashes
from inference_worker.sequence import Sequence


class BlockManager:
    """Hands out `num_blocks` blocks of `block_size` tokens.

    A free block keeps its content and can be found by its hash until it is handed out again. The free list is
    ordered: blocks that nobody can find come first, then the least recently used.
    """

    def __init__(self, num_blocks: int, block_size: int, cache: PrefixCache) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._cache = cache
        self._references = [0] * num_blocks
        # An OrderedDict, not a deque: a cached block is taken from the middle in constant time.
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))

    @property
    def used(self) -> int:
        """Blocks that live sequences hold."""
        return self.num_blocks - len(self._free)

    def blocks_for(self, tokens: int) -> int:
        """How many blocks `tokens` tokens fill."""
        return -(-tokens // self.block_size)

    # --- Admission ----------------------------------------------------------------------------------

    def find_prefix(self, sequence: Sequence) -> list[int]:
        """Cached blocks that a sequence can start with; its last token always stays to be computed.

        Log probabilities of a prompt are not cached, so all of it is computed if they are wanted.
        """
        if sequence.unscored:
            return []
        limit = sequence.target if sequence.siblings else sequence.target - 1
        count = limit // self.block_size
        extend_hashes(sequence, count, self.block_size)
        return self._cache.match(sequence.block_hashes[:count])

    def can_admit(self, sequence: Sequence, prefix: list[int]) -> bool:
        """All known tokens would fit now: admitting less would only be preempted again."""
        revived = sum(not self._references[block] for block in prefix)
        return self.blocks_for(len(sequence.token_ids)) - len(prefix) <= len(self._free) - revived

    def adopt(self, sequence: Sequence, prefix: list[int]) -> None:
        """Let a sequence that holds nothing begin with `prefix`."""
        self._acquire(prefix)
        sequence.block_table = array("q", prefix)
        sequence.published = len(prefix)
        sequence.computed = len(prefix) * self.block_size

    # --- Growth -------------------------------------------------------------------------------------

    def can_extend(self, sequence: Sequence, end: int) -> bool:
        """There are blocks to compute the sequence up to token `end`."""
        missing = self.blocks_for(end) - len(sequence.block_table)
        return missing + (self._shared_write(sequence) is not None) <= len(self._free)

    def can_extend_all(self, sequences: list[Sequence], ends: list[int]) -> bool:
        """There are blocks to compute all of them up to their ends. For sequences whose next block is their own."""
        missing = (self.blocks_for(end) - len(s.block_table) for s, end in zip(sequences, ends, strict=True))
        return sum(max(0, blocks) for blocks in missing) <= len(self._free)

    def extend(self, sequence: Sequence, end: int) -> list[BlockCopy]:
        """Give a sequence the blocks to compute up to `end`, and a copy of the block it would write to if shared."""
        table, copies = sequence.block_table, []
        index = self._shared_write(sequence)
        if index is not None:
            copies.append(BlockCopy(table[index], self._take()))
            self._release([table[index]])
            table[index] = copies[0].target
        for _ in range(self.blocks_for(end) - len(table)):
            table.append(self._take())
        return copies

    def trim(self, sequence: Sequence) -> None:
        """Take back blocks beyond what is computed: they held wrong drafts."""
        kept = self.blocks_for(sequence.computed)
        self._release(sequence.block_table[kept:])
        del sequence.block_table[kept:]

    def _shared_write(self, sequence: Sequence) -> int | None:
        """Index of the block that the next token is written to, if others hold it too. Later ones are its own."""
        index = sequence.computed // self.block_size
        if index < len(sequence.block_table) and self._references[sequence.block_table[index]] > 1:
            return index
        return None

    def publish(self, sequence: Sequence) -> None:
        """Make the full blocks that were computed since the last time findable."""
        full = sequence.computed // self.block_size
        if full > sequence.published:
            extend_hashes(sequence, full, self.block_size)
            for index in range(sequence.published, full):
                self._cache.publish(sequence.block_table[index], sequence.block_hashes[index])
            sequence.published = full

    # --- Sharing and release ------------------------------------------------------------------------

    def fork(self, parent: Sequence, child: Sequence) -> None:
        """Let `child`, which holds nothing, share everything that `parent` computed."""
        self._acquire(parent.block_table)
        child.block_table = parent.block_table[:]
        child.block_hashes = parent.block_hashes[: parent.computed // self.block_size]
        child.published, child.computed = parent.published, parent.computed

    def release(self, sequence: Sequence) -> None:
        """Take back all blocks of a sequence; nothing of it is computed any more."""
        self._release(reversed(sequence.block_table))  # the end of a prompt is evicted before its beginning
        sequence.block_table = array("q")
        sequence.computed = sequence.published = 0

    def _take(self) -> int:
        block, _ = self._free.popitem(last=False)
        self._cache.evict(block)
        self._references[block] = 1
        return block

    def _acquire(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            if not self._references[block]:
                del self._free[block]
            self._references[block] += 1

    def _release(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            self._references[block] -= 1
            if not self._references[block]:
                self._free[block] = None
                self._free.move_to_end(block, last=block in self._cache)
