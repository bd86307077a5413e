"""Computes paged causal attention in plain float32 PyTorch: the slow reference that tests compare backends with.

Every other backend is tested against this one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from inference_worker.engine.attention_backend import AttentionBackend, AttentionInputs, AttentionMetadata


class ReferenceAttention(AttentionBackend):
    """An `AttentionBackend` in float32 that loops over sequences: slow, the reference for tests of other backends."""

    name = "reference"

    def forward(self, inputs: AttentionInputs, metadata: AttentionMetadata) -> Tensor:
        """Compute one layer's attention for all T tokens of a step, in float32 loops: [T, query heads, head size].

        First writes the layer's new keys and values to the paged cache. Tests compare other backends' output with this
        one.
        """
        self.cache.write(inputs.layer, metadata.slot_mapping, inputs.key, inputs.value)
        query = inputs.query
        output = torch.empty_like(query)
        starts = metadata.query_start.tolist()
        for index, length in enumerate(metadata.sequence_lengths.tolist()):
            rows = slice(starts[index], starts[index + 1])
            table = metadata.block_tables[index]
            keys, values = (side.flatten(0, 1)[:length] for side in self.cache.read(inputs.layer, table))
            output[rows] = _attend(query[rows], keys, values, inputs.scale, inputs.sliding_window).to(query.dtype)
        return output


def _attend(query: Tensor, keys: Tensor, values: Tensor, scale: float, window: int | None) -> Tensor:
    """Attend in one sequence: query [q, Hq, D] over keys and values [n, Hkv, D] to [q, Hq, D] float32."""
    group = query.shape[1] // keys.shape[1]
    keys = keys.float().repeat_interleave(group, dim=1)
    values = values.float().repeat_interleave(group, dim=1)
    scores = torch.einsum("qhd,nhd->hqn", query.float(), keys) * scale
    count, length = query.shape[0], keys.shape[0]
    seen = torch.arange(length, device=query.device)
    own = torch.arange(length - count, length, device=query.device)[:, None]
    hidden = seen > own
    if window is not None:
        hidden |= seen <= own - window
    weights = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)
    return torch.einsum("hqn,nhd->qhd", weights, values)
