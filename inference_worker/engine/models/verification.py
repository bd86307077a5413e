"""Verifies, before a `transformers` model is served, that it computes the same on packed tokens and paged attention.

Two short sequences run packed, by a plain attention behind the backend interface, and each alone, by the model's own
eager code. Results differ if an architecture does more than causal attention over keys and values: position biases in
the mask, other states (convolutions, recurrences), bidirectional attention. So no list of architectures is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from inference_worker.engine.attention.reference import attend
from inference_worker.engine.attention_backend import (
    AttentionBackend,
    AttentionInputs,
    AttentionMetadata,
    StepAttention,
)
from inference_worker.engine.causal_lm import CausalLM
from inference_worker.errors import UnsupportedModel

LENGTHS = (7, 4)
TOLERANCE = {torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}
"""Largest accepted difference of a logit, as a share of the largest logit."""


@dataclass(frozen=True)
class AttentionSizes:
    """The head counts and head size that a `transformers` model passes to attention; the same in all layers."""

    query_heads: int
    kv_heads: int
    head_size: int


def verify(model: PreTrainedModel, candidate: CausalLM, attention: str) -> AttentionSizes:
    """Check that `candidate` gives, on packed tokens, the logits of the `transformers` model that it wraps.

    Runs `model` with eager attention, then sets its attention implementation to `attention`.

    Returns:
        The number and the size of the model's attention heads.

    Raises:
        UnsupportedModel: the results differ, or a layer does not use the attention backend.
    """
    name = candidate.shape.model_type
    device = next(model.parameters()).device
    recorder = _Recorder()
    try:
        with torch.inference_mode():
            ours = _packed(candidate, recorder, device)
            theirs = _alone(model, attention, device)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, NotImplementedError) as error:
        raise UnsupportedModel(f"{name} does not run on paged attention: {error}") from error
    if sorted(recorder.layers) != list(range(candidate.shape.layers)):
        raise UnsupportedModel(f"{name} has layers that do not go through paged attention")
    if len(set(recorder.layers.values())) > 1:
        raise UnsupportedModel(f"{name} has layers with different numbers or sizes of heads")
    if ours.shape != theirs.shape or not _close(ours, theirs, model.dtype):
        raise UnsupportedModel(f"{name} computes something else on packed sequences and paged attention")
    return recorder.layers[0]


def _packed(candidate: CausalLM, recorder: _Recorder, device: torch.device) -> Tensor:
    ids = torch.cat([_ids(length, candidate.shape.vocab_size) for length in LENGTHS]).to(device)
    positions = torch.cat([torch.arange(length) for length in LENGTHS]).to(device)
    empty = torch.empty(0, dtype=torch.int64, device=device)
    metadata = AttentionMetadata(empty, empty, empty, empty, max(LENGTHS), max(LENGTHS))
    return candidate.logits(candidate.forward(ids, positions, StepAttention(recorder, metadata)))


def _alone(model: PreTrainedModel, attention: str, device: torch.device) -> Tensor:
    vocab_size = model.config.get_text_config().vocab_size
    model.set_attn_implementation("eager")
    rows = [model(input_ids=_ids(n, vocab_size)[None].to(device), use_cache=False).logits[0] for n in LENGTHS]
    model.set_attn_implementation(attention)
    return torch.cat(rows).float()


def _ids(length: int, vocab_size: int) -> Tensor:
    """Return distinct token ids spread over the vocabulary."""
    return (torch.arange(1, length + 1) * 7919 + length) % vocab_size


def _close(ours: Tensor, theirs: Tensor, dtype: torch.dtype) -> bool:
    allowed = TOLERANCE.get(dtype, 1e-3) * max(float(theirs.abs().max()), 1e-6)
    return bool((ours - theirs).abs().max() <= allowed)


class _Recorder(AttentionBackend):
    """Dense causal attention over packed sequences of `LENGTHS` that records the sizes of each layer's call."""

    name = "verification"

    def __init__(self) -> None:
        self.layers: dict[int, AttentionSizes] = {}

    def forward(self, inputs: AttentionInputs, metadata: AttentionMetadata) -> Tensor:
        """Compute a layer's attention without a cache, and record the sizes of its heads, while a model is verified."""
        query, key, value = inputs.query, inputs.key, inputs.value
        if value.shape != key.shape or query.shape[-1] != key.shape[-1]:
            raise UnsupportedModel("its values are of another size than its keys")
        if inputs.layer in self.layers:
            raise UnsupportedModel("its layers share keys and values")
        self.layers[inputs.layer] = AttentionSizes(query.shape[1], key.shape[1], key.shape[2])
        parts = zip(*(torch.split(states, list(LENGTHS)) for states in (query, key, value)), strict=True)
        return torch.cat([attend(q, k, v, inputs) for q, k, v in parts]).to(query.dtype)
