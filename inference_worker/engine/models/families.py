"""Configures the engine's own decoder (`layers/decoder.py`) for each model family that it supports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from transformers import PreTrainedConfig

from inference_worker.engine.causal_lm import ModelShape
from inference_worker.engine.layers.attention import AttentionConfig, LayerPattern
from inference_worker.engine.layers.decoder import DecoderConfig
from inference_worker.engine.layers.rotary import max_context_length
from inference_worker.errors import UnsupportedModel


def _llama(config: PreTrainedConfig) -> DecoderConfig:
    """Llama 1 to 3, SmolLM 1 and 2, and others of type `llama`: full attention everywhere, optional biases."""
    attention = _attention(config, qkv_bias=config.attention_bias, output_bias=config.attention_bias)
    return _decoder(config, attention, [LayerPattern()] * config.num_hidden_layers, mlp_bias=config.mlp_bias)


def _mistral(config: PreTrainedConfig) -> DecoderConfig:
    """Mistral 7B and its descendants: Llama with one sliding window for all layers, or none."""
    layers = [LayerPattern(sliding_window=config.sliding_window)] * config.num_hidden_layers
    return _decoder(config, _attention(config), layers)


def _qwen2(config: PreTrainedConfig) -> DecoderConfig:
    """Qwen 1.5, 2 and 2.5: biases on query, key and value; upper layers may have a sliding window."""
    return _decoder(config, _attention(config, qkv_bias=True), _windowed_layers(config))


def _qwen3(config: PreTrainedConfig) -> DecoderConfig:
    """Qwen 3, dense: each query and key head is normalised before it is rotated."""
    bias = config.attention_bias
    attention = _attention(config, qkv_bias=bias, output_bias=bias, qk_norm_eps=config.rms_norm_eps)
    return _decoder(config, attention, _windowed_layers(config))


def _smollm3(config: PreTrainedConfig) -> DecoderConfig:
    """SmolLM3: no rotary embedding in every fourth layer (NoPE; Yang et al., "RoPE to NoPE and Back Again", 2025)."""
    bias = config.attention_bias
    attention = _attention(config, qkv_bias=bias, output_bias=bias)
    layers = _windowed_layers(config) if config.use_sliding_window else [LayerPattern()] * config.num_hidden_layers
    # `no_rope_layers` has 1 where there *is* rotation.
    layers = [replace(layer, rotary=bool(rope)) for rope, layer in zip(config.no_rope_layers, layers, strict=False)]
    return _decoder(config, attention, layers, mlp_bias=config.mlp_bias)


FAMILIES: Mapping[str, Callable[[PreTrainedConfig], DecoderConfig]] = MappingProxyType(
    {"llama": _llama, "mistral": _mistral, "qwen2": _qwen2, "qwen3": _qwen3, "smollm3": _smollm3}
)
"""Functions that return the decoder's configuration for a `transformers` configuration, by `model_type`."""


def eos_token_ids(*sources: object) -> tuple[int, ...]:
    """Return the end-of-text token ids that several model configurations name, each id once.

    Args:
        sources: values of `eos_token_id`, each `None`, an int or a list of ints.
    """
    ids: dict[int, None] = {}
    for source in sources:
        found = getattr(source, "eos_token_id", None)
        ids.update(dict.fromkeys([found] if isinstance(found, int) else found or []))
    return tuple(ids)


def _decoder(
    config: PreTrainedConfig, attention: AttentionConfig, layers: Iterable[LayerPattern], *, mlp_bias: bool = False
) -> DecoderConfig:
    """Build a decoder's configuration: attention and layer patterns as given, the rest from `config`."""
    return DecoderConfig(
        shape=ModelShape(
            model_type=config.model_type,
            layers=config.num_hidden_layers,
            query_heads=attention.query_heads,
            kv_heads=attention.kv_heads,
            head_size=attention.head_size,
            vocab_size=config.vocab_size,
            max_position=max_context_length(config),
            eos_token_ids=eos_token_ids(config),
        ),
        attention=attention,
        layers=tuple(layers),
        intermediate_size=config.intermediate_size,
        norm_eps=config.rms_norm_eps,
        activation=config.hidden_act,
        tied_embeddings=bool(config.tie_word_embeddings),
        mlp_bias=mlp_bias,
    )


def _attention(
    config: PreTrainedConfig,
    *,
    qkv_bias: bool = False,
    output_bias: bool = False,
    qk_norm_eps: float | None = None,
) -> AttentionConfig:
    """Return the attention configuration: sizes from `config`, biases and query-key normalisation from the arguments.

    Raises:
        UnsupportedModel: query heads can't share key-value heads evenly.
    """
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    if kv_heads < 1 or heads % kv_heads:
        raise UnsupportedModel(f"{heads} query heads can't share {kv_heads} key-value heads")
    head_size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return AttentionConfig(config.hidden_size, heads, kv_heads, head_size, qkv_bias, output_bias, qk_norm_eps)


def _windowed_layers(config: PreTrainedConfig) -> list[LayerPattern]:
    """Return the layers with their sliding windows or full attention, by `config.layer_types`.

    Raises:
        UnsupportedModel: a layer has neither full nor sliding attention.
    """
    kinds = {"full_attention": None, "sliding_attention": config.sliding_window}
    unknown = set(config.layer_types) - set(kinds)
    if unknown:
        raise UnsupportedModel(f"layers of type {', '.join(sorted(unknown))}")
    return [LayerPattern(sliding_window=kinds[kind]) for kind in config.layer_types]
