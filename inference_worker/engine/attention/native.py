"""Computes paged attention with the compiled CPU kernels, for models whose other layers run in PyTorch.

A model that runs in the kernels as a whole (`layers/native_decoder.py`) calls them directly.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from inference_worker.engine.attention_backend import AttentionBackend, AttentionInputs, AttentionMetadata
from inference_worker.engine.kv_cache import KVCache
from inference_worker.engine.native.build import built_library
from inference_worker.engine.native.library import HEAD_STEP, Kernels, usable_instructions
from inference_worker.errors import NativeUnavailable
from inference_worker.settings import Instructions


class NativeAttention(AttentionBackend):
    """An `AttentionBackend` on the compiled kernels. Computes in float32, whichever format the cache has."""

    name = "native"

    def __init__(self, cache: KVCache, instructions: Instructions = "auto") -> None:
        """`instructions`: the setting. Raises `NativeUnavailable` where the kernels can't run or support the heads."""
        super().__init__(cache)
        if not cache.keys[0].is_cpu:  # the kernels read addresses
            raise NativeUnavailable(f"the compiled kernels are the CPU's, the cache is on {cache.keys[0].device}")
        if cache.shape.head_size % HEAD_STEP:
            raise NativeUnavailable(f"heads of {cache.shape.head_size} are no multiple of {HEAD_STEP}")
        self._instructions = usable_instructions(instructions)
        built_library(self._instructions)

    @cached_property
    def kernels(self) -> Kernels:
        """Library of compiled CPU kernels for this backend's attention; loaded, with its threads, on first access."""
        return Kernels(torch.get_num_threads(), self._instructions)

    def forward(self, inputs: AttentionInputs, metadata: AttentionMetadata) -> Tensor:
        """Compute one layer's attention for a step's T tokens by compiled CPU kernels: [T, query heads, head size].

        First writes the layer's new keys and values to the paged cache. Called once per layer and step by the model's
        layers.
        """
        query, key, value = (rows.float().contiguous() for rows in (inputs.query, inputs.key, inputs.value))
        converted = replace(inputs, query=query, key=key, value=value)
        return self.kernels.attention(self.cache, converted, metadata).to(inputs.query.dtype)
