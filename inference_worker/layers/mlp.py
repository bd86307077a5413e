"""The gated feed-forward layer: `down(act(gate(x)) * up(x))` (Shazeer, "GLU Variants Improve Transformer", 2020)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN

from inference_worker.errors import UnsupportedModel
from inference_worker.layers.linear import Linear, MergedLinear


class GatedMLP(nn.Module):
    """Gate and up are one matrix."""

    def __init__(self, hidden: int, inner: int, activation: str, *, bias: bool, dtype: torch.dtype) -> None:
        super().__init__()
        if activation not in ACT2FN:
            raise UnsupportedModel(f"unknown activation {activation!r}")
        parts = {"gate_proj": inner, "up_proj": inner}
        self.gate_up_proj = MergedLinear(hidden, parts, bias=bias, dtype=dtype)
        self.down_proj = Linear(inner, hidden, bias=bias, dtype=dtype)
        self.activation = ACT2FN[activation]

    def forward(self, x: Tensor) -> Tensor:
        """[T, hidden] to [T, hidden]."""
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        out: Tensor = self.down_proj(self.activation(gate) * up)
        return out
