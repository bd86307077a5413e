"""Indexes full KV cache blocks by a chained hash of their token ids and the tenant's salt, so that they are reused.

A block's hash covers every token before it, so equal hashes mean equal keys and values. SHA-256, because a collision
would show one tenant's context to another. The block manager decides on eviction.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from inference_worker.engine.sequence import Sequence


def hash_before(sequence: Sequence, index: int) -> bytes:
    """Return the chained hash of the tokens before block `index` of a sequence that has the hashes of these blocks."""
    return sequence.block_hashes[index - 1] if index else sha256(sequence.salt.encode()).digest()


def extend_hashes(sequence: Sequence, count: int, block_size: int) -> None:
    """Compute the hashes that `sequence.block_hashes` lacks for its first `count` blocks, and append them.

    Each of these blocks must be full of known tokens; `block_size` is a block's number of tokens.
    """
    hashes = sequence.block_hashes
    parent = hash_before(sequence, len(hashes))
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
        """Return the cached blocks that are registered under the leading `hashes` of a sequence, in order.

        Ends at the first hash without a block; an empty list if there is none.
        """
        blocks: list[int] = []
        for digest in hashes:
            block = self._block_of.get(digest)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def publish(self, block: int, digest: bytes) -> None:
        """Register the cache block `block` under its chained hash `digest`, unless another block has that hash."""
        if digest not in self._block_of:
            self._block_of[digest] = block
            self._hash_of[block] = digest

    def evict(self, block: int) -> None:
        """Remove a block that will be overwritten from the prefix cache; does nothing for an unregistered block."""
        digest = self._hash_of.pop(block, None)
        if digest is not None:
            del self._block_of[digest]


class NoPrefixCache(PrefixCache):
    """A prefix cache that stores nothing, for when prefix caching is disabled."""

    def publish(self, block: int, digest: bytes) -> None:
        """Do nothing, so that no prefix is ever found: prefix caching is disabled."""
