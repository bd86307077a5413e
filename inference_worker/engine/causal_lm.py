"""Defines the interface of the engine's causal language models: token ids to hidden states, hidden states to logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from inference_worker.engine.attention_backend import StepAttention

MAX_LAYERS = 1024
"""Layers of the deepest model that is served: a hostile file may declare so many that building the model hangs."""


@dataclass(frozen=True)
class ModelShape:
    """The sizes and special tokens of a model, of any family."""

    model_type: str
    layers: int
    query_heads: int
    kv_heads: int
    head_size: int
    vocab_size: int
    max_position: int
    """Longest context in tokens that the model supports."""
    eos_token_ids: tuple[int, ...]


class CausalLM(Protocol):
    """The interface of a causal language model that computes packed tokens of many sequences with paged attention."""

    shape: ModelShape

    def forward(self, token_ids: Tensor, positions: Tensor, attention: StepAttention) -> Tensor:
        """Compute the final hidden states of all T tokens of a step, and write keys and values to the cache.

        Args:
            token_ids: [T] int64, all sequences of the step one after the other.
            positions: [T] int64, each token's position in its own sequence.
            attention: the step's attention, called once per layer.

        Returns:
            [T, hidden size]: after the final norm, of the rows that are read (`AttentionMetadata.read_from`).
        """
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """Compute next-token logits from final hidden states: [R, hidden size] to [R, vocabulary size] float32."""
        ...
