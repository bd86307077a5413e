"""Computes paged attention on CUDA with this project's own Triton kernels, which read the paged KV cache in place.

Tile sizes and the number of splits follow from shapes alone. Nothing synchronises with the device and no launch depends
on a value on it, so a decode step can be captured in a CUDA graph. The kernels are in `triton_kernels.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, log2

import torch
import triton
from torch import Tensor

from inference_worker.engine.attention.triton_kernels import (
    attention_kernel,
    combine_kernel,
    store_kernel,
    store_quantised_kernel,
)
from inference_worker.engine.attention_backend import AttentionBackend, AttentionInputs, AttentionMetadata
from inference_worker.engine.kv_cache import SCALE, KVCache
from inference_worker.engine.triton_support import check_usable, product_format
from inference_worker.errors import UnsupportedModel

MOST_SPLITS = 32
PROGRAMS_PER_MULTIPROCESSOR = 4
"""Decode splits contexts until there are about this many programs per multiprocessor."""


@dataclass(frozen=True)
class Tiling:
    """Launch parameters of `attention_kernel`: query rows and key positions per product, warps, pipeline stages."""

    rows: int
    tile: int
    warps: int
    stages: int


class TritonAttention(AttentionBackend):
    """An `AttentionBackend` for CUDA. Keys of rows with slot -1 are not stored; the output of empty sequences is 0."""

    name = "triton"

    def __init__(self, cache: KVCache) -> None:
        """Raises `UnsupportedModel` without CUDA, `NativeUnavailable` without a C compiler."""
        super().__init__(cache)
        device = cache.keys[0].device
        if cache.shape.quantised and cache.shape.head_size % SCALE.itemsize:
            raise UnsupportedModel(f"an int8 KV cache on CUDA with heads of {cache.shape.head_size}, no multiple of 4")
        check_usable(device)
        self._multiprocessors = (
            torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 8
        )

    def forward(self, inputs: AttentionInputs, metadata: AttentionMetadata) -> Tensor:
        """Compute one layer's attention for all T tokens of a step with Triton kernels: [T, query heads, head size].

        First writes the layer's new keys and values to the paged cache. Called once per layer and step by the model's
        layers.
        """
        self._store(inputs.layer, _dense_rows(inputs.key), _dense_rows(inputs.value), metadata.slot_mapping)
        return self._attend(inputs, _dense_rows(inputs.query), metadata)

    def splits(self, rows: int) -> int:
        """Return into how many parts (a power of two) each context is split, so that `rows` queries fill the GPU.

        1 means that contexts are not split. The fewer queries, the more parts.
        """
        wanted = PROGRAMS_PER_MULTIPROCESSOR * self._multiprocessors // (rows * self.cache.shape.kv_heads)
        return min(MOST_SPLITS, 1 << max(0, wanted.bit_length() - 1))

    def _store(self, layer: int, key: Tensor, value: Tensor, slots: Tensor) -> None:
        if self.cache.shape.quantised:
            store_quantised_kernel[key.shape[:2]](
                self.cache.keys[layer],
                self.cache.values[layer],
                self.cache.keys[layer].view(SCALE),
                self.cache.values[layer].view(SCALE),
                key,
                value,
                slots,
                key.stride(0),
                value.stride(0),
                HEAD_SIZE=key.shape[2],
                PADDED_SIZE=triton.next_power_of_2(key.shape[2]),
            )
            return
        width = key.shape[1] * key.shape[2]
        store_kernel[(len(key),)](
            self.cache.keys[layer],
            self.cache.values[layer],
            key,
            value,
            slots,
            key.stride(0),
            value.stride(0),
            WIDTH=width,
            PADDED=triton.next_power_of_2(width),
        )

    def _attend(self, inputs: AttentionInputs, query: Tensor, metadata: AttentionMetadata) -> Tensor:
        rows, heads, size = query.shape
        shape, keys, values = self.cache.shape, self.cache.keys[inputs.layer], self.cache.values[inputs.layer]
        kv_heads, sequences = shape.kv_heads, len(metadata.sequence_lengths)
        single = metadata.max_query_length == 1
        launch = tiling(heads // kv_heads, size, query.itemsize, single)
        splits = self.splits(rows) if single else 1
        programs = sequences if single else rows // (launch.rows // (heads // kv_heads)) + sequences
        out = query.new_empty(query.shape)
        means = out if splits == 1 else query.new_empty((rows, heads, splits, size), dtype=torch.float32)
        sums, maxima = query.new_empty((2, rows, heads, splits), dtype=torch.float32)
        padded = max(16, triton.next_power_of_2(size))
        attention_kernel[(programs, kv_heads, splits)](
            means,
            sums,
            maxima,
            query,
            keys,
            values,
            keys.view(SCALE) if shape.quantised else keys,
            values.view(SCALE) if shape.quantised else values,
            metadata.block_tables,
            metadata.query_start,
            metadata.sequence_lengths,
            inputs.sinks,
            sequences,
            inputs.scale * log2(e),
            query.stride(0),
            metadata.block_tables.stride(0),
            kv_heads * shape.vector_length,
            GROUP=heads // kv_heads,
            HEAD_SIZE=size,
            PADDED_SIZE=padded,
            VECTOR=shape.vector_length,
            QUANTISED=shape.quantised,
            BLOCK_SIZE=shape.block_size,
            WINDOW=inputs.sliding_window or 0,
            SOFTCAP=inputs.softcap or 0.0,
            SINKS=inputs.sinks is not None,
            SINGLE=single,
            SPLITS=splits,
            ROWS=launch.rows,
            TILE=launch.tile,
            PRODUCT=product_format(query.dtype),
            num_warps=launch.warps,
            num_stages=launch.stages,
        )
        if splits > 1:
            combine_kernel[(rows * heads,)](
                out, means, sums, maxima, HEAD_SIZE=size, PADDED_SIZE=padded, SPLITS=splits, num_warps=1
            )
        return out


def _dense_rows(states: Tensor) -> Tensor:
    """Return [T, heads, size] with each row's heads contiguous; rows may have gaps (parts of one projection do)."""
    dense = states.stride(2) == 1 and states.stride(1) == states.shape[2]
    return states if dense else states.contiguous()


def tiling(group: int, head_size: int, itemsize: int, single: bool) -> Tiling:
    """Return the launch parameters (tile sizes, warps, pipeline stages) with which `attention_kernel` is launched.

    Args:
        group: query heads per key-value head.
        head_size: numbers in a head's query, key or value.
        itemsize: bytes of a number.
        single: whether each sequence has one query, so that memory bandwidth is the bound.

    Those of single queries were chosen by measurements on an H100; the others are estimates. Float32 uses no tensor
    cores (they would round to tf32), so its tiles are kept small enough for registers.
    """
    fits = max(16, triton.next_power_of_2(group))  # a matrix product has 16 rows at least
    if itemsize > 2:
        return Tiling(fits, 32, warps=4, stages=2)
    if single:
        return Tiling(fits, 64 if head_size <= 128 else 32, warps=2, stages=2)
    if head_size <= 128:
        return Tiling(max(128, fits), 64, warps=8, stages=3)
    return Tiling(max(64, fits), 32, warps=8, stages=2)
