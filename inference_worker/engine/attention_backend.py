"""Defines the interface of the engine's attention backends: queries, keys and values of a step in, attention out.

All tokens of a step are packed in one flat dimension T, sequence after sequence; there is no padding and no separate
prefill and decode, but a backend may add in another order for prompts (`prompt_lengths`). Sequence `s` owns query rows
`query_start[s] .. query_start[s+1]-1`, which are the *last* of its `sequence_lengths[s]` known positions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from inference_worker.engine.kv_cache import KVCache


@dataclass(frozen=True)
class AttentionMetadata:
    """The position of each row of a step in its sequence and in the cache. Tensors are on the device, int32 or int64.

    Attributes:
        query_start: [S+1] first row of each sequence, then T.
        sequence_lengths: [S] tokens in the cache after this step.
        block_tables: [S, B] block numbers, rows padded with 0.
        slot_mapping: [T] cache slot (block * block_size + offset) that each row's key and value go to.
        max_query_length: longest row count of a sequence.
        max_sequence_length: largest of `sequence_lengths`.
        read_from: [S] int64, the row from which on a sequence's final hidden states are read; None: from its first.
            A backend may skip the outputs of earlier rows in the last layer, but must write their keys and values.
        prompt_lengths: [S] int64 tokens of each sequence's prompt; None: all rows of the step are of prompts, before
            their last tokens. A backend may add in another order for these than for a prompt's last token and generated
            ones; which other rows are in the step must not matter.
    """

    query_start: Tensor
    sequence_lengths: Tensor
    block_tables: Tensor
    slot_mapping: Tensor
    max_query_length: int
    max_sequence_length: int
    read_from: Tensor | None = None
    prompt_lengths: Tensor | None = None


@dataclass(frozen=True, slots=True)
class AttentionInputs:
    """A layer's attention inputs for the T rows of a step; queries and keys are rotated.

    Attributes:
        layer: index of the model's layer, which selects the cache tensors.
        query: [T, query heads, head size].
        key, value: [T, key-value heads, head size].
        scale: factor on the products of queries and keys, before the softmax.
        sliding_window: a position attends to itself and this many - 1 before it; None: to all before it.
        softcap: scores become softcap * tanh(score / softcap), after the scale and before the mask; None: uncapped.
        sinks: [query heads] float32, contiguous: of each head, the score of one more position, which takes a part of
            the softmax's weight and has no value; None: there are none.
    """

    layer: int
    query: Tensor
    key: Tensor
    value: Tensor
    scale: float
    sliding_window: int | None = None
    softcap: float | None = None
    sinks: Tensor | None = None


class AttentionBackend(ABC):
    """Paged causal attention: reads and writes the blocks of one `KVCache`, for all layers of a model."""

    name: str

    def __init__(self, cache: KVCache) -> None:
        self.cache = cache

    @abstractmethod
    def forward(self, inputs: AttentionInputs, metadata: AttentionMetadata) -> Tensor:
        """Compute one layer's attention for all T tokens of a step; every attention backend implements this method.

        Implementations write the layer's new keys and values to the paged cache first; then each query attends to its
        own sequence up to its position.

        Returns:
            [T, query heads, head size], in the query's dtype.
        """


@dataclass(frozen=True)
class StepAttention:
    """An attention backend with one step's metadata; a model's layers call it with their `AttentionInputs`."""

    backend: AttentionBackend
    metadata: AttentionMetadata

    def __call__(self, inputs: AttentionInputs) -> Tensor:
        """Compute one layer's attention for the step; see `AttentionBackend.forward`."""
        return self.backend.forward(inputs, self.metadata)
