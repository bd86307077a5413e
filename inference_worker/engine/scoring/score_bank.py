"""Prefix cache of a reward model that keeps scores with cached KV blocks, whose positions aren't computed again."""

from __future__ import annotations

from inference_worker.engine.scheduling.prefix_cache import PrefixCache
from inference_worker.engine.sequence import Sequence


class ScoreBank(PrefixCache):
    """A prefix cache with the logits that were read in each cached block, by the block's hash and position.

    A logit depends on the tokens up to its position only, all of which the hash covers.
    """

    def __init__(self) -> None:
        super().__init__()
        self._logits: dict[bytes, dict[int, float]] = {}

    def store(self, digest: bytes, position: int, logit: float) -> None:
        """Keep the logit at `position` of a sequence as long as the block with the hash `digest` is cached."""
        if digest in self._block_of:
            self._logits.setdefault(digest, {})[position] = logit

    def logits(self, digest: bytes) -> dict[int, float]:
        """Return the logits that are kept with the cached block whose hash is `digest`, by position in the sequence."""
        return self._logits.get(digest, {})

    def evict(self, block: int) -> None:
        """Remove a block that will be overwritten, with its logits, from the prefix cache; ignores other blocks."""
        if block in self:
            self._logits.pop(self._hash_of[block], None)
        super().evict(block)


def scored_prefix(
    bank: ScoreBank, sequence: Sequence, prefix: list[int], positions: list[int], block_size: int
) -> tuple[list[int], dict[int, float]]:
    """Return the leading cached blocks that an input can reuse without losing scores, and their logits by position.

    All wanted logits of these blocks are known; the list ends before the first block with an unknown one.

    Args:
        bank: the prefix cache in which `prefix` was found.
        sequence: has the hashes of its leading blocks.
        prefix: cached blocks that the sequence can start with.
        positions: ascending positions at which logits are wanted.
        block_size: tokens of a block.
    """
    found: dict[int, float] = {}
    for index in range(len(prefix)):
        known = bank.logits(sequence.block_hashes[index])
        wanted = [each for each in positions if each // block_size == index]
        if not all(each in known for each in wanted):
            return prefix[:index], found
        found.update((each, known[each]) for each in wanted)
    return prefix, found
