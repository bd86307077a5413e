"""Prefix cache of a reward model that keeps scores with cached KV blocks, whose positions aren't computed again.

It also finds blocks of which only the first tokens are those of an input: answers part within a block, and a step ends
in one. They are copied, so that an answer that grew by a step costs the tokens of that step alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import islice

from inference_worker.engine.scheduling.prefix_cache import PrefixCache, hash_before
from inference_worker.engine.sequence import Sequence

MOST_COMPARED = 64
"""Most blocks after the same tokens whose tokens are compared with those of an input; the latest ones are."""


class ScoreBank(PrefixCache):
    """A prefix cache with the tokens and the logits of each cached block, which may be filled in part.

    A logit depends on the tokens up to its position only: those of the block, and those that its hash covers.
    """

    def __init__(self) -> None:
        super().__init__()
        self._logits: dict[int, dict[int, float]] = {}
        """By block and position."""
        self._following: dict[bytes, dict[int, array[int]]] = {}
        """The tokens of the blocks that follow the tokens with a hash, by hash and block, the latest block last."""
        self._before: dict[int, bytes] = {}
        """The hash in `_following` of each block in it."""

    def __contains__(self, block: int) -> bool:
        return block in self._before or super().__contains__(block)

    def store(self, block: int, before: bytes, tokens: array[int], logits: dict[int, float]) -> None:
        """Keep the first tokens that a block has keys and values of, and the logits that were read at them.

        Args:
            block: the cache block.
            before: chained hash of all tokens before the block.
            tokens: the block's computed tokens.
            logits: the logits read in the block, by position in the sequence.
        """
        self._following.setdefault(before, {})[block] = tokens
        self._before[block] = before
        if logits:
            self._logits.setdefault(block, {}).update(logits)

    def logits(self, block: int) -> dict[int, float]:
        """Return the logits that are kept with a cached block, by position in the sequence."""
        return self._logits.get(block, {})

    def find_beginning(self, before: bytes, tokens: array[int]) -> tuple[int, int]:
        """Return the block after the tokens with the hash `before` that begins with the most of `tokens`, and how many.

        The number is 0 if no block begins with any of them.
        """
        best = (-1, 0)
        for block, known in islice(reversed(self._following.get(before, {}).items()), MOST_COMPARED):
            if (common := _common(known, tokens)) > best[1]:
                best = (block, common)
                if common == len(tokens):
                    break
        return best

    def evict(self, block: int) -> None:
        """Remove a block that will be overwritten, with its logits, from the cache; ignores other blocks."""
        if (before := self._before.pop(block, None)) is not None:
            del self._following[before][block]
            if not self._following[before]:
                del self._following[before]
        self._logits.pop(block, None)
        super().evict(block)


def scored_prefix(
    bank: ScoreBank, prefix: list[int], positions: list[int], block_size: int
) -> tuple[list[int], dict[int, float]]:
    """Return the leading cached blocks that an input can reuse without losing scores, and their logits by position.

    All wanted logits of these blocks are known; the list ends before the first block with an unknown one.

    Args:
        bank: the prefix cache in which `prefix` was found.
        prefix: cached blocks that the sequence can start with.
        positions: ascending positions at which logits are wanted.
        block_size: tokens of a block.
    """
    found: dict[int, float] = {}
    for index, block in enumerate(prefix):
        known = bank.logits(block)
        wanted = [each for each in positions if each // block_size == index]
        if not all(each in known for each in wanted):
            return prefix[:index], found
        found.update((each, known[each]) for each in wanted)
    return prefix, found


def scored_beginning(
    bank: ScoreBank, sequence: Sequence, index: int, positions: list[int], block_size: int
) -> tuple[int, int, dict[int, float]]:
    """Find the cached block that begins most like block `index` of an input.

    Returns:
        The block, how many tokens of it can be reused without losing scores, and their logits by position. The last
        token of the input is never among them, as it must be computed.

    Args:
        bank: the prefix cache to search in.
        sequence: has the hashes of the blocks before `index`.
        index: number of leading blocks that the input reuses whole.
        positions: ascending positions at which logits are wanted.
        block_size: tokens of a block.
    """
    start = index * block_size
    tokens = sequence.token_ids[start : min(start + block_size, len(sequence.token_ids) - 1)]
    block, count = bank.find_beginning(hash_before(sequence, index), tokens)
    known, found = bank.logits(block), dict[int, float]()
    for position in positions:
        if start <= position < start + count:
            if position not in known:
                return block, position - start, found
            found[position] = known[position]
    return block, count, found


def _common(known: Iterable[int], tokens: Iterable[int]) -> int:
    """Return how many tokens both begin with."""
    count = 0
    for ours, theirs in zip(known, tokens, strict=False):
        if ours != theirs:
            break
        count += 1
    return count
