"""Allocates contiguous memory for the CPU kernels' packed weights, in the order in which a step reads them.

So a kernel that prefetches past the end of a weight (`src/linear.h`) fetches the next one, and huge pages are shared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from inference_worker.engine.native.packing import PackedWeight

SLAB = 64 * 1024 * 1024
"""Bytes allocated at once."""

ALIGNMENT = 64
"""Alignment of weights in bytes: a cache line."""


class WeightStore(Protocol):
    """The interface of memory for packed weights."""

    def keep(self, name: str, packed: Callable[[], PackedWeight]) -> PackedWeight:
        """Return the weight `name` in this memory; `packed` packs it, where it is not stored yet."""
        ...


class WeightArena:
    """A memory arena for packed weights that grows by slabs; a slab is freed with the last tensor in it."""

    def __init__(self, slab_bytes: int = SLAB) -> None:
        self._slab_bytes = slab_bytes
        self._left = torch.empty(0, dtype=torch.uint8)

    def keep(self, _: str, packed: Callable[[], PackedWeight]) -> PackedWeight:
        """Pack a weight, and return it with its panels copied to this memory."""
        weight = packed()
        return replace(weight, panels=self.store(weight.panels))

    def store(self, tensor: Tensor) -> Tensor:
        """Copy a packed weight tensor behind the one stored last, and return the copy.

        A tensor that is longer than a slab gets its own slab.
        """
        size = tensor.numel() * tensor.element_size()
        if size > len(self._left):
            self._left = _slab(max(self._slab_bytes, size))
        place = self._left[:size].view(tensor.dtype).view(tensor.shape)
        self._left = self._left[(size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT :]
        return place.copy_(tensor)


def _slab(size: int) -> Tensor:
    """Allocate by NumPy, which requests huge pages: these are read faster."""
    memory = torch.from_numpy(np.empty(size + ALIGNMENT, dtype=np.uint8))
    start = -memory.data_ptr() % ALIGNMENT
    return memory[start : start + size]
