"""Stores the engine's paged KV cache: a key and a value tensor per layer, cut into blocks of `block_size` tokens.

Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023. An int8 cache
stores each head's key or value as bytes, followed by their float32 scale (`native/src/cached_vectors.h`, ADR 0048).
Blocks are allocated by `scheduling/block_manager.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

SCALE = torch.float32
"""Number format of an int8 vector's scale."""

LARGEST = 127
"""The int8 code of a vector's largest magnitude."""


@dataclass(frozen=True)
class KVCacheShape:
    """The sizes and number format of a KV cache."""

    layers: int
    kv_heads: int
    head_size: int
    block_size: int
    dtype: torch.dtype

    @property
    def quantised(self) -> bool:
        """Whether the cache stores keys and values as int8 with a float32 scale each."""
        return self.dtype == torch.int8

    @property
    def vector_length(self) -> int:
        """Number of elements that one head's key or value takes in the cache, its scale included."""
        return self.head_size + SCALE.itemsize * self.quantised

    @property
    def bytes_per_block(self) -> int:
        """Bytes that one cache block takes in all layers together, keys and values."""
        return 2 * self.layers * self.block_size * self.kv_heads * self.vector_length * self.dtype.itemsize


class KVCache:
    """The paged memory for keys and values of all layers on one device.

    Attributes:
        keys, values: per layer, [blocks, block_size, kv heads, vector length].
    """

    def __init__(self, shape: KVCacheShape, num_blocks: int, device: torch.device) -> None:
        self.shape = shape
        self.num_blocks = num_blocks
        size = (num_blocks, shape.block_size, shape.kv_heads, shape.vector_length)
        self.keys = [self._allocate(size, device) for _ in range(shape.layers)]
        self.values = [self._allocate(size, device) for _ in range(shape.layers)]

    def write(self, layer: int, slots: Tensor, key: Tensor, value: Tensor) -> None:
        """Store the keys and values of T tokens in `layer` of the cache, quantised if the cache is int8.

        Args:
            slots: [T] token slots, block * block_size + offset.
            key, value: [T, kv heads, head size].
        """
        for side, vectors in ((self.keys, key), (self.values, value)):
            stored = quantise(vectors) if self.shape.quantised else vectors
            side[layer].flatten(0, 1).index_copy_(0, slots, stored)

    def read(self, layer: int, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """Return a copy of the keys and of the values that `layer` of the cache holds in `blocks`, as floats.

        `blocks` are block numbers of any shape [...]; each result is [..., block_size, kv heads, head size].
        """
        keys, values = self.keys[layer][blocks], self.values[layer][blocks]
        return (dequantise(keys), dequantise(values)) if self.shape.quantised else (keys, values)

    def copy_blocks(self, source: Tensor, target: Tensor) -> None:
        """Copy C whole cache blocks in all layers, from the block numbers `source` to `target` (each [C] int64).

        Used for copy-on-write, when a sequence must write to a block that others share.
        """
        for side in (self.keys, self.values):
            for layer in side:
                layer[target] = layer[source]

    def _allocate(self, size: tuple[int, ...], device: torch.device) -> Tensor:
        """Return zeros; on the CPU pages take memory only once they are written (`torch.zeros` writes all of them)."""
        dtype = self.shape.dtype
        if device.type != "cpu":
            return torch.zeros(size, dtype=dtype, device=device)
        return torch.from_numpy(np.zeros(math.prod(size) * dtype.itemsize, dtype=np.uint8)).view(dtype).view(size)


def quantise(vectors: Tensor) -> Tensor:
    """Quantise keys or values for an int8 cache: [..., D] floats to [..., D + 4] int8.

    The last four bytes of each vector are a float32 scale, by which its largest magnitude becomes 127.
    """
    vectors = vectors.float()
    highest = vectors.abs().amax(dim=-1, keepdim=True)
    largest = torch.full_like(highest, LARGEST)  # torch takes number / tensor as a product
    factor = torch.where(highest > 0, largest / highest, 0.0)
    codes = (vectors * factor).round().to(torch.int8)
    return torch.cat([codes, (highest / LARGEST).to(SCALE).view(torch.int8)], dim=-1)


def dequantise(stored: Tensor) -> Tensor:
    """Convert int8 keys or values of the cache (see `quantise`) to floats: [..., D + 4] to [..., D] float32."""
    codes, scales = stored[..., : -SCALE.itemsize], stored[..., -SCALE.itemsize :]
    return codes * scales.contiguous().view(SCALE)
