"""Attention by the compiled kernels, for models that are otherwise PyTorch's (`native/decoder.py` calls them itself).

Knows tensors and the cache; what the kernels are made of is `inference_worker/native/`'s matter.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from inference_worker.attention.backend import AttentionBackend, AttentionMetadata
from inference_worker.errors import NativeUnavailable
from inference_worker.execution.kv_cache import KVCache
from inference_worker.native.build import best_instructions, built_library
from inference_worker.native.library import HEAD_STEP, Kernels


class NativeAttention(AttentionBackend):
    """Computes in float32 whatever the cache holds; see `AttentionBackend`."""

    name = "native"

    def __init__(self, cache: KVCache) -> None:
        """Raises `NativeUnavailable` where the kernels can't run or heads are of an odd size."""
        super().__init__(cache)
        if not cache.keys[0].is_cpu:  # the kernels read addresses
            raise NativeUnavailable(f"the compiled kernels are the CPU's, the cache is on {cache.keys[0].device}")
        if cache.shape.head_size % HEAD_STEP:
            raise NativeUnavailable(f"heads of {cache.shape.head_size} are no multiple of {HEAD_STEP}")
        built_library(best_instructions())

    @cached_property
    def kernels(self) -> Kernels:
        """Made when they are first needed: a compiled model has its own."""
        return Kernels(torch.get_num_threads())

    def forward(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        metadata: AttentionMetadata,
        *,
        scale: float,
        sliding_window: int | None = None,
    ) -> Tensor:
        """See `AttentionBackend.forward`."""
        rows = query.float().contiguous(), key.float().contiguous(), value.float().contiguous()
        out = self.kernels.attention(self.cache, layer, rows, metadata, scale=scale, window=sliding_window)
        return out.to(query.dtype)
