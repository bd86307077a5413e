"""Finds full blocks again by what is in them: a chained hash over token ids and the tenant's salt.

A block's hash covers every token before it, so equal hashes mean equal keys and values. SHA-256, because a collision
would show one tenant's context to another. Knows block numbers, not who holds them or when they are evicted.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from inference_worker.sequence import Sequence


def extend_hashes(sequence: Sequence, count: int, block_size: int) -> None:
    """Make `sequence.block_hashes` cover its first `count` blocks, all of them full of known tokens."""
    hashes = sequence.block_hashes
    parent = hashes[-1] if hashes else sha256(sequence.salt.encode()).digest()
    for index in range(len(hashes), count):
        tokens = sequence.token_ids[index * block_size : (index + 1) * block_size]
        parent = sha256(parent + tokens.tobytes()).digest()
        hashes.append(parent)


class PrefixCache:
    """Which block holds which hash; one block a hash, the first that came."""

    def __init__(self) -> None:
        self._block_of: dict[bytes, int] = {}
        self._hash_of: dict[int, bytes] = {}

    def __contains__(self, block: int) -> bool:
        return block in self._hash_of

    def match(self, hashes: Iterable[bytes]) -> list[int]:
        """Blocks of the longest prefix of `hashes` that is held."""
        blocks: list[int] = []
        for digest in hashes:
            block = self._block_of.get(digest)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def publish(self, block: int, digest: bytes) -> None:
        """From now on `block` can be found by `digest`, unless another block already can."""
        if digest not in self._block_of:
            self._block_of[digest] = block
            self._hash_of[block] = digest

    def evict(self, block: int) -> None:
        """Forget a block that will be written to; unknown ones are ignored."""
        digest = self._hash_of.pop(block, None)
        if digest is not None:
            del self._block_of[digest]


class NoPrefixCache(PrefixCache):
    """Prefix caching switched off: remembers nothing."""

    def publish(self, block: int, digest: bytes) -> None:
        """Ignore the block."""
