"""Defines the gated feed-forward layer of the engine's decoders: `down(act(gate(x)) * up(x))` (Shazeer, 2020)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference_worker.engine.layers.linear import Linear, MergedLinear
from inference_worker.errors import UnsupportedModel

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "silu": functional.silu,
        "swish": functional.silu,
        "gelu": functional.gelu,
        "gelu_new": partial(functional.gelu, approximate="tanh"),
        "gelu_pytorch_tanh": partial(functional.gelu, approximate="tanh"),
        "relu": functional.relu,
    }
)
"""Activation functions by their names in `transformers`, whose own table takes longer to import than the engine."""


class GatedMLP(nn.Module):
    """A gated feed-forward layer whose gate and up projections are one matrix."""

    def __init__(self, hidden: int, inner: int, activation: str, *, bias: bool, dtype: torch.dtype) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise UnsupportedModel(f"unknown activation {activation!r}")
        parts = {"gate_proj": inner, "up_proj": inner}
        self.gate_up_proj = MergedLinear(hidden, parts, bias=bias, dtype=dtype)
        self.down_proj = Linear(inner, hidden, bias=bias, dtype=dtype)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        """Compute the feed-forward layer `down(act(gate(x)) * up(x))` of packed tokens: [T, hidden] to [T, hidden]."""
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        out: Tensor = self.down_proj(self.activation(gate) * up)
        return out
