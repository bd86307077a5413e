"""A small random transformer that truly attends through the port, and engines around it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear, rms_norm, silu

from inference_worker.engine.attention_backend import AttentionInputs, StepAttention
from inference_worker.engine.causal_lm import ModelShape
from inference_worker.engine.engine import Engine
from inference_worker.settings import EngineSettings

EOS = 2


class TinyModel:
    """Two layers, grouped heads whose size is not hidden / heads, rotary positions, random weights."""

    def __init__(self, seed: int = 0, vocab_size: int = 61, max_position: int = 256, hidden: int = 24) -> None:
        self.shape = ModelShape("tiny", 2, 4, 2, 8, vocab_size, max_position, (EOS,))
        self.steps = 0
        self.poison: set[int] = set()
        self.memory = 1_000_000
        """Tokens of a step for which there is memory."""
        generator = torch.Generator().manual_seed(seed)

        def weight(*size: int) -> Tensor:
            return torch.randn(*size, generator=generator) / size[-1] ** 0.5

        self.embed = weight(vocab_size, hidden) * 3
        self.head = weight(vocab_size, hidden) * 3  # not tied: it would only repeat itself
        self.layers = [
            (weight(32, hidden), weight(16, hidden), weight(16, hidden), weight(hidden, 32), weight(hidden, hidden))
            for _ in range(self.shape.layers)
        ]

    def forward(self, token_ids: Tensor, positions: Tensor, attention: StepAttention) -> Tensor:
        self.steps += 1
        if self.poison & set(token_ids.tolist()):
            raise ValueError("poisoned token")
        if len(token_ids) > self.memory:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        hidden = embedding(token_ids, self.embed)
        for index, (q, k, v, o, mlp) in enumerate(self.layers):
            normed = rms_norm(hidden, hidden.shape[-1:])
            query, key, value = (linear(normed, w).view(len(hidden), -1, 8) for w in (q, k, v))
            rotated = rotate(query, positions), rotate(key, positions)
            out = attention(AttentionInputs(index, *rotated, value, scale=8**-0.5))
            hidden = hidden + linear(out.flatten(1), o)
            hidden = hidden + silu(linear(rms_norm(hidden, hidden.shape[-1:]), mlp))
        return rms_norm(hidden, hidden.shape[-1:])

    def logits(self, hidden: Tensor) -> Tensor:
        return linear(hidden, self.head)


def rotate(states: Tensor, positions: Tensor) -> Tensor:
    """Rotary embedding on [T, heads, 8]."""
    angle = positions[:, None, None] / 100 ** (torch.arange(4) / 4)
    first, second = states.chunk(2, dim=-1)
    return torch.cat((first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()), dim=-1)


def tiny_engine(model: TinyModel | None = None, **settings: Any) -> Engine:
    """An engine around a tiny model on the CPU in float32, with blocks of 4."""
    values: dict[str, Any] = {"model": "tiny", "block_size": 4, "num_kv_blocks": 512, **settings}
    return Engine.from_model(model or TinyModel(), EngineSettings(**values), torch.float32)
