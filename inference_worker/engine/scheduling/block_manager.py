"""Allocates KV cache blocks to sequences: reference counts, prefix reuse, copy-on-write and the list of free blocks.

Kwon et al. 2023 (PagedAttention), sections 4.2-4.4. The tensors are in `kv_cache.py`.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable

from inference_worker.engine.batch import BlockCopy
from inference_worker.engine.scheduling.prefix_cache import PrefixCache, extend_hashes
from inference_worker.engine.sequence import Sequence


class BlockManager:
    """Allocates `num_blocks` KV cache blocks of `block_size` tokens to sequences, and shares blocks of equal prefixes.

    A free block keeps its content and can be found by its hash until it is allocated again. The free list is
    ordered: blocks that are not in the prefix cache come first, then the least recently used.
    """

    def __init__(self, num_blocks: int, block_size: int, cache: PrefixCache) -> None:
        self._num_blocks = num_blocks
        self.block_size = block_size
        self._cache = cache
        self._references = [0] * num_blocks
        # An OrderedDict, not a deque: a cached block is taken from the middle in constant time.
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))
        self._peak = 0
        """Most blocks that were held before a release."""

    @property
    def num_blocks(self) -> int:
        """Number of cache blocks that sequences can hold together at most."""
        return self._num_blocks

    @property
    def used(self) -> int:
        """Number of cache blocks that live sequences hold."""
        return self._num_blocks - len(self._free)

    @property
    def peak(self) -> int:
        """Largest number of cache blocks that live sequences held at once."""
        return max(self._peak, self.used)

    def blocks_for(self, tokens: int) -> int:
        """Return the number of cache blocks that `tokens` tokens of one sequence need."""
        return -(-tokens // self.block_size)

    # --- Admission ----------------------------------------------------------------------------------

    def find_prefix(self, sequence: Sequence) -> list[int]:
        """Return the cached blocks with which a new sequence can start, in order; empty if none match.

        The last known token is never among them, as it must be computed. Prompt log probabilities are not cached, so a
        request that wants them gets none. `adopt` acquires the blocks.
        """
        if sequence.needs_prompt_scores:
            return []
        limit = sequence.target if sequence.siblings else sequence.target - 1
        count = limit // self.block_size
        extend_hashes(sequence, count, self.block_size)
        return self._cache.match(sequence.block_hashes[:count])

    def can_admit(self, sequence: Sequence, prefix: list[int]) -> bool:
        """Return whether free blocks suffice for `sequence`'s known tokens, if it starts with the cached `prefix`."""
        revived = sum(not self._references[block] for block in prefix)
        return self._has_free(self.blocks_for(len(sequence.token_ids)) - len(prefix) + revived)

    def adopt(self, sequence: Sequence, prefix: list[int]) -> None:
        """Give a sequence that holds no blocks the cached blocks `prefix`, and count their tokens as computed.

        The blocks are shared with the sequences that hold them.
        """
        self._acquire(prefix)
        sequence.block_table = array("q", prefix)
        sequence.published = len(prefix)
        sequence.computed = len(prefix) * self.block_size

    # --- Growth -------------------------------------------------------------------------------------

    def can_extend(self, sequence: Sequence, end: int) -> bool:
        """Return whether free blocks suffice to compute `sequence`'s first `end` tokens, a copy-on-write included."""
        missing = self.blocks_for(end) - len(sequence.block_table)
        return self._has_free(missing + (self._shared_write(sequence) is not None))

    def can_extend_all(self, sequences: list[Sequence], ends: list[int]) -> bool:
        """Return whether free blocks suffice to compute every one of `sequences` up to its end in `ends`, all together.

        An end is a number of tokens. No sequence may share its last block with another.
        """
        missing = (self.blocks_for(end) - len(s.block_table) for s, end in zip(sequences, ends, strict=True))
        return self._has_free(sum(max(0, blocks) for blocks in missing))

    def extend(self, sequence: Sequence, end: int) -> list[BlockCopy]:
        """Allocate the blocks that the first `end` tokens of `sequence` need beyond those that it holds.

        Call it only if `can_extend` is true.

        Returns:
            The copy-on-write to make before the step, if the next token goes to a shared block; else an empty list.
        """
        table, copies = sequence.block_table, []
        index = self._shared_write(sequence)
        if index is not None:
            copies.append(BlockCopy(table[index], self._take()))
            self._release([table[index]])
            table[index] = copies[0].target
        for _ in range(self.blocks_for(end) - len(table)):
            table.append(self._take())
        return copies

    def trim(self, sequence: Sequence, end: int) -> None:
        """Free the blocks of `sequence` beyond its first `end` tokens: those of rejected drafts or of further steps."""
        kept = self.blocks_for(end)
        self._release(sequence.block_table[kept:])
        del sequence.block_table[kept:]

    def _shared_write(self, sequence: Sequence) -> int | None:
        """Return the index of the block that the next token goes to, if it is shared. Later blocks never are."""
        index = sequence.computed // self.block_size
        if index < len(sequence.block_table) and self._references[sequence.block_table[index]] > 1:
            return index
        return None

    def publish(self, sequence: Sequence) -> None:
        """Register in the prefix cache the full blocks of `sequence` that were computed since the last call."""
        full = sequence.computed // self.block_size
        if full > sequence.published:
            extend_hashes(sequence, full, self.block_size)
            for index in range(sequence.published, full):
                self._cache.publish(sequence.block_table[index], sequence.block_hashes[index])
            sequence.published = full

    # --- Sharing and release ------------------------------------------------------------------------

    def fork(self, parent: Sequence, child: Sequence) -> None:
        """Let `child`, which holds no blocks, share all blocks of `parent`; as many of its tokens count as computed."""
        self._acquire(parent.block_table)
        child.block_table = parent.block_table[:]
        child.block_hashes = parent.block_hashes[: parent.computed // self.block_size]
        child.published, child.computed = parent.published, parent.computed

    def release(self, sequence: Sequence) -> None:
        """Take all blocks from `sequence` and free those that no other sequence shares; its computed tokens become 0.

        Called when a sequence ends or is preempted.
        """
        self._release(reversed(sequence.block_table))  # so that the end of a prompt is evicted before its beginning
        sequence.block_table = array("q")
        sequence.computed = sequence.published = 0

    def _has_free(self, count: int) -> bool:
        """Return whether `count` blocks can be allocated now."""
        return count <= len(self._free)

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
        self._peak = self.peak
        for block in blocks:
            self._references[block] -= 1
            if not self._references[block]:
                self._free[block] = None
                self._free.move_to_end(block, last=block in self._cache)
