"""The prefix cache: an index of full KV blocks by a chained hash of their token ids and the tenant's salt.

A block's hash covers every token before it, so equal hashes mean equal keys and values. SHA-256, because a collision
would show one tenant's context to another. The block manager decides on eviction.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from inference_worker.engine.sequence import Sequence


def extend_hashes(sequence: Sequence, count: int, block_size: int) -> None:
    """Append to `sequence.block_hashes` the missing hashes of its first `count` blocks, each full of known tokens."""
    hashes = sequence.block_hashes
    parent = hashes[-1] if hashes else sha256(sequence.salt.encode()).digest()
    for index in range(len(hashes), count):
        tokens = sequence.token_ids[index * block_size : (index + 1) * block_size]
        parent = sha256(parent + tokens.tobytes()).digest()
        hashes.append(parent)


class PrefixCache:
    """An index from the chained hash of a full KV block to the block; the first block registered stays."""

    def __init__(self) -> None:
        self._block_of: dict[bytes, int] = {}
        self._hash_of: dict[int, bytes] = {}

    def __contains__(self, block: int) -> bool:
        return block in self._hash_of

    def match(self, hashes: Iterable[bytes]) -> list[int]:
        """Return the blocks registered under the leading `hashes`, up to the first hash without a block."""
        blocks: list[int] = []
        for digest in hashes:
            block = self._block_of.get(digest)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def publish(self, block: int, digest: bytes) -> None:
        """Register `block` under the hash `digest`, unless that hash has a block already."""
        if digest not in self._block_of:
            self._block_of[digest] = block
            self._hash_of[block] = digest

    def evict(self, block: int) -> None:
        """Remove a block that will be overwritten from the index; unregistered blocks are ignored."""
        digest = self._hash_of.pop(block, None)
        if digest is not None:
            del self._block_of[digest]


class NoPrefixCache(PrefixCache):
    """A prefix cache that stores nothing, for when prefix caching is disabled."""

    def publish(self, block: int, digest: bytes) -> None:
        """Ignore the block, so that no prefix is ever found."""
