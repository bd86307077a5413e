"""Defines the self-attention layer of the engine's decoders: projections and rotation around the attention backend.

The backend (`inference_worker/engine/attention_backend.py`) owns the KV cache, blocks and masks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from inference_worker.engine.attention_backend import AttentionInputs, StepAttention
from inference_worker.engine.layers.linear import Linear, MergedLinear
from inference_worker.engine.layers.rms_norm import RMSNorm
from inference_worker.engine.layers.rotary import Rotation


@dataclass(frozen=True)
class AttentionConfig:
    """Sizes, biases and query-key normalisation of a model's attention; the same in all layers."""

    hidden_size: int
    query_heads: int
    kv_heads: int
    head_size: int
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm_eps: float | None = None
    """Epsilon of the normalisation of each query and key head; None: no normalisation."""


@dataclass(frozen=True)
class LayerPattern:
    """The properties that differ between layers: whether there is rotary embedding, and the sliding window."""

    rotary: bool = True
    sliding_window: int | None = None


class SelfAttention(nn.Module):
    """Self-attention whose query, key and value projections are one matrix, with the heads in this order."""

    def __init__(self, config: AttentionConfig, layer: int, pattern: LayerPattern, *, dtype: torch.dtype) -> None:
        super().__init__()
        self.config, self.layer, self.pattern = config, layer, pattern
        size, query, kv = config.head_size, config.query_heads, config.kv_heads
        parts = {"q_proj": query * size, "k_proj": kv * size, "v_proj": kv * size}
        self.qkv_proj = MergedLinear(config.hidden_size, parts, bias=config.qkv_bias, dtype=dtype)
        self.o_proj = Linear(query * size, config.hidden_size, bias=config.output_bias, dtype=dtype)
        if config.qk_norm_eps is not None:
            self.q_norm = RMSNorm(size, config.qk_norm_eps, dtype=dtype)
            self.k_norm = RMSNorm(size, config.qk_norm_eps, dtype=dtype)

    def forward(self, x: Tensor, rotation: Rotation, attention: StepAttention) -> Tensor:
        """Compute a layer's self-attention for the T packed tokens of a step: hidden states [T, hidden] to [T, hidden].

        Stores the tokens' keys and values in the KV cache first; each token attends to its own sequence up to its
        position.
        """
        config = self.config
        heads = self.qkv_proj(x).view(x.shape[0], -1, config.head_size)
        positioned, value = torch.split(heads, [config.query_heads + config.kv_heads, config.kv_heads], dim=1)
        rotated = self._position(positioned, rotation)
        query, key = torch.split(rotated, [config.query_heads, config.kv_heads], dim=1)
        mixed = attention(
            AttentionInputs(self.layer, query, key, value, config.head_size**-0.5, self.pattern.sliding_window)
        )
        out: Tensor = self.o_proj(mixed.reshape(x.shape[0], -1))
        return out

    def _position(self, heads: Tensor, rotation: Rotation) -> Tensor:
        """Normalise and rotate query and key heads together."""
        if self.config.qk_norm_eps is not None:
            query, key = torch.split(heads, [self.config.query_heads, self.config.kv_heads], dim=1)
            heads = torch.cat((self.q_norm(query), self.k_norm(key)), dim=1)
        return rotation.apply(heads) if self.pattern.rotary else heads
