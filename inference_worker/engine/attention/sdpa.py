"""Computes paged attention with PyTorch's `scaled_dot_product_attention` on any device: gathers blocks and pads.

That function has neither soft caps nor sinks: layers with them are computed by matrix products and a softmax.

Sequences of a step are grouped by the power of two above their query length, so that padding at most doubles the
queries and decodes are never padded to a long prompt chunk. The grouping is computed once per step, not per layer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from inference_worker.engine.attention_backend import AttentionBackend, AttentionInputs, AttentionMetadata
from inference_worker.engine.kv_cache import KVCache

_MOST_SCORES = 1 << 26
"""Most scores in memory at once, float32, where they are computed one by one; several tensors have this size."""


@dataclass(frozen=True)
class _Group:
    """Sequences with similar query lengths, padded to the longest (q) and to the longest context (n).

    Attributes:
        rows: [s, q] rows of the step; padding repeats a valid row.
        valid: [s, q] false for padding; `None`: there is no padding.
        tables: [s, n / block_size] block numbers.
        own: [s, q, 1] position of each query in its sequence.
        masks: attention masks by sliding window and number of query heads per key-value head.
    """

    rows: Tensor
    valid: Tensor | None
    tables: Tensor
    own: Tensor
    masks: dict[tuple[int | None, int], Tensor] = field(default_factory=dict)

    def mask(self, window: int | None, shared: int, length: int) -> Tensor:
        """Return the attention mask of this group of s sequences: true where a query may attend to a position.

        Computed once per step and reused by all layers.

        Args:
            window: sliding window in positions; `None`: a query sees all positions up to its own.
            shared: number of query heads per key-value head.
            length: positions of the padded context (n).

        Returns:
            [s, 1, shared * q, n] bool, where q is the padded number of queries.
        """
        if (window, shared) not in self.masks:
            seen = torch.arange(length, device=self.own.device)
            visible = seen <= self.own
            if window is not None:
                visible &= seen > self.own - window
            self.masks[window, shared] = visible[:, None].repeat(1, 1, shared, 1)
        return self.masks[window, shared]


class SdpaAttention(AttentionBackend):
    """An `AttentionBackend` for any device: gathers the cache blocks of similarly long queries into padded tensors."""

    name = "sdpa"

    def __init__(self, cache: KVCache) -> None:
        super().__init__(cache)
        self._planned_for: AttentionMetadata | None = None
        self._groups: list[_Group] = []

    def forward(self, inputs: AttentionInputs, metadata: AttentionMetadata) -> Tensor:
        """Compute one layer's attention for all T tokens of a step with PyTorch's kernel: [T, query heads, head size].

        First writes the layer's new keys and values to the paged cache. Called once per layer and step by the model's
        layers.
        """
        self.cache.write(inputs.layer, metadata.slot_mapping, inputs.key, inputs.value)
        if metadata is not self._planned_for:
            self._groups, self._planned_for = _plan(metadata, self.cache.shape.block_size), metadata
        output = torch.empty_like(inputs.query)
        for group in self._groups:
            attended = self._attend(inputs, group)
            if group.valid is None:
                output[group.rows] = attended
            else:
                output[group.rows[group.valid]] = attended[group.valid]
        return output

    def _attend(self, inputs: AttentionInputs, group: _Group) -> Tensor:
        """Return the attention of one group's queries, [s, q, Hq, D].

        Query heads that share a key-value head are folded into the query dimension, so that no key is repeated.
        """
        query = inputs.query[group.rows]
        count, queries, heads, size = query.shape
        keys, values = (
            side.flatten(1, 2).transpose(1, 2).to(query.dtype) for side in self.cache.read(inputs.layer, group.tables)
        )
        shared = heads // keys.shape[1]
        folded = query.view(count, queries, -1, shared, size).permute(0, 2, 3, 1, 4).flatten(2, 3)
        mask = group.mask(inputs.sliding_window, shared, keys.shape[2])
        if inputs.softcap is None and inputs.sinks is None:
            attended = scaled_dot_product_attention(folded, keys, values, attn_mask=mask, scale=inputs.scale)
        else:
            attended = _explicit(folded, keys, values, mask, inputs)
        return (
            attended.view(count, -1, shared, queries, size).permute(0, 3, 1, 2, 4).reshape(count, queries, heads, size)
        )


def _explicit(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, inputs: AttentionInputs) -> Tensor:
    """Attend with soft caps and sinks, of [s, Hkv, shared * q, D] queries over [s, Hkv, n, D] keys and values.

    Some rows at a time, because the scores are in memory. Returns [s, Hkv, shared * q, D].
    """
    count, kv_heads, rows, _ = queries.shape
    sinks = None
    if inputs.sinks is not None:
        of_rows = inputs.sinks.view(kv_heads, -1, 1).expand(-1, -1, rows * kv_heads // len(inputs.sinks))
        sinks = of_rows.reshape(1, kv_heads, rows, 1).expand(count, -1, -1, -1)
    some = max(1, _MOST_SCORES // (count * kv_heads * keys.shape[2]))
    attended = []
    for first in range(0, rows, some):
        part = slice(first, first + some)
        scores = (queries[:, :, part] @ keys.transpose(2, 3)).float() * inputs.scale
        if inputs.softcap is not None:
            scores = inputs.softcap * torch.tanh(scores / inputs.softcap)
        scores = scores.masked_fill(~mask[:, :, part], float("-inf"))
        if sinks is not None:
            scores = torch.cat([scores, sinks[:, :, part]], dim=-1)
        attended.append(scores.softmax(dim=-1)[..., : keys.shape[2]].to(values.dtype) @ values)
    return torch.cat(attended, dim=2)


def _plan(metadata: AttentionMetadata, block_size: int) -> list[_Group]:
    """Group the sequences of a step by the bit length of their query count."""
    counts = metadata.query_start.diff()
    members: dict[int, list[int]] = {}
    for index, count in enumerate(counts.tolist()):
        members.setdefault((count - 1).bit_length(), []).append(index)
    if len(members) == 1 and metadata.max_query_length == 1:
        all_sequences = torch.arange(len(counts), device=counts.device)
        return [_group(metadata, all_sequences, 1, metadata.max_sequence_length, block_size)]
    lengths = metadata.sequence_lengths.tolist()
    queries = counts.tolist()
    return [
        _group(
            metadata,
            torch.tensor(indexes, device=counts.device),
            max(queries[i] for i in indexes),
            max(lengths[i] for i in indexes),
            block_size,
        )
        for indexes in members.values()
    ]


def _group(metadata: AttentionMetadata, indexes: Tensor, queries: int, length: int, block_size: int) -> _Group:
    starts = metadata.query_start[indexes, None]
    counts = metadata.query_start[indexes + 1, None] - starts
    # Padding repeats the last row, so that every query attends to a position and no softmax divides by zero.
    steps = torch.arange(queries, device=indexes.device).expand(len(indexes), -1)
    offsets = torch.minimum(steps, counts - 1)
    own = metadata.sequence_lengths[indexes, None] - counts + offsets
    return _Group(
        rows=starts + offsets,
        valid=None if queries == 1 else steps < counts,
        tables=metadata.block_tables[indexes, : -(-length // block_size)],
        own=own[..., None],
    )
