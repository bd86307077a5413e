"""Runs causal language models without a definition in the engine, by `transformers`' code on our paged attention.

Our attention is registered in `AttentionInterface`; for a name that has no mask function `transformers` builds no mask,
so packed tokens of many sequences go through as a batch of one. An architecture may mix tokens outside of attention,
so each model's output is compared with the original before it is served (`verification.py`).
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPast

from inference_worker.engine.attention_backend import AttentionInputs, StepAttention
from inference_worker.engine.causal_lm import ModelShape
from inference_worker.engine.layers.rotary import max_context_length
from inference_worker.engine.models import verification
from inference_worker.engine.models.families import eos_token_ids
from inference_worker.engine.weights.pretrained import causal_lm_of, from_pretrained
from inference_worker.engine.weights.weights import Checkpoint, SafetensorsFolder, check
from inference_worker.errors import BadWeights, UnsupportedModel

ATTENTION = "headrace"
"""The name under which our attention is registered in `transformers`."""


class TransformersModel:
    """A `CausalLM` (`causal_lm.py`) that runs a `transformers` model on our paged attention."""

    def __init__(self, model: PreTrainedModel, shape: ModelShape) -> None:
        self.shape = shape
        self._body = model.base_model
        self._head = _head_only(model)

    def forward(self, token_ids: Tensor, positions: Tensor, attention: StepAttention) -> Tensor:
        """Compute the final hidden states of T packed tokens of a step by `transformers`' code: [T, hidden].

        The tokens' keys and values are written to the KV cache of `attention`.
        """
        out: Tensor = self._body(
            input_ids=token_ids[None], position_ids=positions[None], use_cache=False, step_attention=attention
        ).last_hidden_state[0]
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Compute the logits of the next token from R final hidden states: [R, hidden] to [R, vocab].

        The model's own output head computes them, with its scalings and caps.
        """
        ids = torch.zeros((1, hidden.shape[0]), dtype=torch.int64, device=hidden.device)
        out: Tensor = self._head(input_ids=ids, use_cache=False, precomputed_hidden=hidden[None]).logits[0].float()
        return out


def load(folder: Path, config: PreTrainedConfig, dtype: torch.dtype, device: torch.device) -> TransformersModel:
    """Load the safetensors in `folder` by `transformers`, and verify that the model runs correctly on paged attention.

    Raises:
        UnsupportedModel: it is no causal language model, or computes something else on paged attention.
        BadWeights: the checkpoint is damaged or incomplete.
    """
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModel(f"{config.model_type} is an encoder-decoder: we serve decoders")
    SafetensorsFolder(folder).shapes()
    AttentionInterface.register(ATTENTION, paged_attention)
    model = from_pretrained(AutoModelForCausalLM, folder, config, dtype, attn_implementation=ATTENTION)
    return _verified(model, config, device)


def described_model(config: PreTrainedConfig) -> nn.Module:
    """Return the causal language model of `config` by `transformers` on the meta device, without memory for weights.

    Raises:
        BadWeights: there is no such model.
    """
    try:
        with torch.device("meta"):
            model: nn.Module = AutoModelForCausalLM.from_config(config)
    except (ValueError, KeyError, TypeError, RuntimeError, ArithmeticError) as error:
        raise BadWeights(f"no model of {config.model_type} has this configuration: {error}") from error
    return model


def load_tensors(
    checkpoint: Checkpoint, config: PreTrainedConfig, dtype: torch.dtype, device: torch.device
) -> TransformersModel:
    """Load the tensors of `checkpoint` into the model of `config`, and verify that it runs on paged attention.

    Names and shapes of the tensors are checked before their data is read.

    Raises:
        UnsupportedModel: it computes something else on paged attention.
        BadWeights: the checkpoint is damaged or incomplete.
    """
    check(described_model(config), checkpoint, tied_embeddings=config.tie_word_embeddings)
    AttentionInterface.register(ATTENTION, paged_attention)
    tensors = {name: checkpoint.read(name).to(dtype) for name in checkpoint.shapes()}
    return _verified(causal_lm_of(tensors, config, dtype, attn_implementation=ATTENTION), config, device)


def _verified(model: PreTrainedModel, config: PreTrainedConfig, device: torch.device) -> TransformersModel:
    model = model.to(device).eval().requires_grad_(False)
    text = config.get_text_config()
    shape = ModelShape(
        model_type=config.model_type,
        layers=text.num_hidden_layers,
        query_heads=0,
        kv_heads=0,
        head_size=0,
        vocab_size=text.vocab_size,
        max_position=max_context_length(text),
        eos_token_ids=eos_token_ids(config),
    )
    sizes = verification.verify(model, TransformersModel(model, shape), ATTENTION)
    shape = replace(shape, query_heads=sizes.query_heads, kv_heads=sizes.kv_heads, head_size=sizes.head_size)
    return TransformersModel(model, shape)


def paged_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    step_attention: StepAttention,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Compute one layer's attention by the step's backend; `transformers` calls this function in every attention layer.

    Args:
        module: the layer; its `layer_idx` chooses the cache.
        query, key, value: [1, heads, T, head size], of the step's packed tokens.
        attention_mask: must be None.
        step_attention: passed through from `TransformersModel.forward`.
        scaling: factor on the scores; None: 1 / sqrt(head size).
        sliding_window, softcap: as in `AttentionInputs`.
        s_aux: [heads], the layer's sinks.
        options: further arguments that the architecture passes to its attention.

    Returns:
        [1, T, heads, head size] and no weights.

    Raises:
        UnsupportedModel: the architecture uses a feature that attention backends don't have.
    """
    _reject_unsupported(attention_mask, options)
    layer: int = module.layer_idx  # type: ignore[assignment]
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    query, key, value = (states[0].transpose(0, 1) for states in (query, key, value))
    sinks = None if s_aux is None else s_aux.float().contiguous()
    out = step_attention(AttentionInputs(layer, query, key, value, scale, sliding_window, softcap, sinks))
    return out[None], None


def _reject_unsupported(attention_mask: Tensor | None, options: dict[str, Any]) -> None:
    wanted = [name for name in ("position_bias", "head_mask") if options.get(name) is not None]
    if attention_mask is not None:
        wanted.append("a mask of its own")
    if options.get("is_causal") is False:
        wanted.append("non-causal attention")
    if wanted:
        raise UnsupportedModel(f"its attention wants {', '.join(wanted)}")


class _PrecomputedOutput(BaseModelOutputWithPast):  # type: ignore[misc]
    """Hidden states, and None for any other attribute an architecture reads (router logits, cross attentions)."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("_"):
            raise AttributeError(name)


class _PrecomputedBody(nn.Module):
    """A replacement for a model's body that returns hidden states computed before."""

    @property
    def decoder(self) -> nn.Module:
        """This module itself, because some models (OPT) call the body's inner decoder."""
        return self

    def forward(self, *_: Any, precomputed_hidden: Tensor, **__: Any) -> BaseModelOutputWithPast:
        """Return the precomputed hidden states, so that `transformers` only applies the model's output head."""
        return _PrecomputedOutput(last_hidden_state=precomputed_hidden)


def _head_only(model: PreTrainedModel) -> nn.Module:
    """Return a shallow copy of the model with its body replaced, so that only its head runs."""
    head: nn.Module = copy.copy(model)
    head._modules = dict(model._modules)
    head._modules[model.base_model_prefix] = _PrecomputedBody()
    return head
