"""Stores a KV cache on the CPU whose blocks take memory only while they are lent, as models share it in one process."""

from __future__ import annotations

import math
import mmap

import torch
from torch import Tensor

from inference_worker.engine.kv_cache import KVCache, KVCacheShape

MIN_EXTENT_BYTES = 2**20
"""Bytes of all layers that an extent has at least: less would mean a system call for little memory."""


class LentKVCache(KVCache):
    """A KV cache in RAM with addresses for more blocks than it may fill, whose memory can be returned in extents."""

    def __init__(self, shape: KVCacheShape, num_blocks: int) -> None:
        self._maps: list[mmap.mmap] = []
        self._block_bytes = shape.bytes_per_block // (2 * shape.layers)
        super().__init__(shape, num_blocks, torch.device("cpu"))

    def discard(self, first: int, count: int) -> None:
        """Return the memory of `count` blocks from block `first` on to the operating system; they are zeros afterwards.

        The run must begin and end between two pages, as extents do (`extent_blocks`).
        """
        for each in self._maps:
            each.madvise(mmap.MADV_DONTNEED, first * self._block_bytes, count * self._block_bytes)

    def _allocate(self, size: tuple[int, ...], device: torch.device) -> Tensor:
        del device  # the CPU
        memory = mmap.mmap(-1, math.prod(size) * self.shape.dtype.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_NOHUGEPAGE)  # a huge page would take the memory of extents that are not lent
        self._maps.append(memory)
        return torch.frombuffer(memory, dtype=torch.uint8).view(self.shape.dtype).view(size)


def extent_blocks(shape: KVCacheShape) -> int:
    """Return the number of blocks of an extent: whole pages of each layer, and about a MiB in all layers together."""
    pages = mmap.PAGESIZE // math.gcd(shape.bytes_per_block // (2 * shape.layers), mmap.PAGESIZE)
    return pages * -(-MIN_EXTENT_BYTES // (pages * shape.bytes_per_block))
