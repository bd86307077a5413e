"""Where packed weights lie: one behind the other as they are packed, which is as a step reads them.

So whoever comes to the end of a weight and asks memory for what follows (`src/linear.h`) asks for the next one, and a
page of memory holds several. Knows nothing of what the bytes mean.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

SLAB = 64 * 1024 * 1024
"""Bytes that are taken at once."""

ALIGNMENT = 64
"""Bytes of a cache line: a weight begins with one."""


class WeightMemory:
    """Grows by slabs; given back with the last tensor that lies in it."""

    def __init__(self, slab_bytes: int = SLAB) -> None:
        self._slab_bytes = slab_bytes
        self._left = torch.empty(0, dtype=torch.uint8)

    def keep(self, tensor: Tensor) -> Tensor:
        """A copy behind what was kept last; of its own slab if it is longer than one."""
        size = tensor.numel() * tensor.element_size()
        if size > len(self._left):
            self._left = _slab(max(self._slab_bytes, size))
        place = self._left[:size].view(tensor.dtype).view(tensor.shape)
        self._left = self._left[(size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT :]
        return place.copy_(tensor)


def _slab(size: int) -> Tensor:
    """Memory of NumPy, which asks for huge pages: memory is read faster in those."""
    memory = torch.from_numpy(np.empty(size + ALIGNMENT, dtype=np.uint8))
    start = -memory.data_ptr() % ALIGNMENT
    return memory[start : start + size]
