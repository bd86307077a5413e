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
            output[rows] = attend(query[rows], keys, values, inputs).to(query.dtype)
        return output


def attend(query: Tensor, keys: Tensor, values: Tensor, inputs: AttentionInputs) -> Tensor:
    """Compute one sequence's attention in float32, as `inputs` describes except for its tensors of the step's rows.

    Args:
        query: [q, query heads, head size], of the sequence's last q positions.
        keys, values: [n, key-value heads, head size], of all its positions.
        inputs: the scale, sliding window, soft cap and sinks of the layer.

    Returns:
        [q, query heads, head size] float32.
    """
    group = query.shape[1] // keys.shape[1]
    keys = keys.float().repeat_interleave(group, dim=1)
    values = values.float().repeat_interleave(group, dim=1)
    scores = torch.einsum("qhd,nhd->hqn", query.float(), keys) * inputs.scale
    if inputs.softcap is not None:
        scores = inputs.softcap * torch.tanh(scores / inputs.softcap)
    count, length = query.shape[0], keys.shape[0]
    seen = torch.arange(length, device=query.device)
    own = torch.arange(length - count, length, device=query.device)[:, None]
    hidden = seen > own
    if inputs.sliding_window is not None:
        hidden |= seen <= own - inputs.sliding_window
    scores = scores.masked_fill(hidden, float("-inf"))
    if inputs.sinks is not None:
        scores = torch.cat([scores, inputs.sinks[:, None, None].expand(-1, count, 1)], dim=-1)
    return torch.einsum("hqn,nhd->qhd", scores.softmax(dim=-1)[..., :length], values)
