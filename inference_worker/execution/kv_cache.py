"""The paged KV cache: one tensor per layer and side, cut into blocks of `block_size` token slots.

Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023. Knows nothing of
who owns a block (`scheduling/block_manager.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class KVCacheShape:
    """Sizes of a cache; `bytes_per_block` covers all layers, keys and values."""

    layers: int
    kv_heads: int
    head_size: int
    block_size: int
    dtype: torch.dtype

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block in all layers."""
        return 2 * self.layers * self.block_size * self.kv_heads * self.head_size * self.dtype.itemsize


class KVCache:
    """Keys and values of all layers.

    Attributes:
        keys, values: per layer, [blocks, block_size, kv heads, head size].
    """

    def __init__(self, shape: KVCacheShape, num_blocks: int, device: torch.device) -> None:
        self.shape = shape
        self.num_blocks = num_blocks
        size = (num_blocks, shape.block_size, shape.kv_heads, shape.head_size)
        self.keys = [_zeros(size, shape.dtype, device) for _ in range(shape.layers)]
        self.values = [_zeros(size, shape.dtype, device) for _ in range(shape.layers)]

    def write(self, layer: int, slots: Tensor, key: Tensor, value: Tensor) -> None:
        """Store `key` and `value` ([T, kv heads, head size]) at `slots` ([T])."""
        self.keys[layer].view(-1, *key.shape[1:]).index_copy_(0, slots, key)
        self.values[layer].view(-1, *value.shape[1:]).index_copy_(0, slots, value)

    def copy_blocks(self, source: Tensor, target: Tensor) -> None:
        """Copy whole blocks in all layers: copy-on-write. `source`, `target`: [C] int64."""
        for side in (self.keys, self.values):
            for layer in side:
                layer[target] = layer[source]


def _zeros(size: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros; on the CPU they cost memory only once they are written (`torch.zeros` writes all of them)."""
    if device.type != "cpu":
        return torch.zeros(size, dtype=dtype, device=device)
    return torch.from_numpy(np.zeros(math.prod(size) * dtype.itemsize, dtype=np.uint8)).view(dtype).view(size)
