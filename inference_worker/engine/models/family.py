"""Reads the parts of a `transformers` configuration that all families of our own have in common."""

from __future__ import annotations

from transformers import PreTrainedConfig

from inference_worker.engine.causal_lm import ModelShape
from inference_worker.engine.layers.attention import AttentionConfig, LayerPattern
from inference_worker.engine.layers.decoder import DecoderConfig
from inference_worker.engine.layers.rotary import max_context_length
from inference_worker.errors import UnsupportedModel


def decoder_config(
    config: PreTrainedConfig, attention: AttentionConfig, layers: tuple[LayerPattern, ...], *, mlp_bias: bool = False
) -> DecoderConfig:
    """Build a decoder's configuration: attention and layer patterns as given, the rest from `config`."""
    return DecoderConfig(
        shape=_shape(config, attention),
        attention=attention,
        layers=layers,
        intermediate_size=config.intermediate_size,
        norm_eps=config.rms_norm_eps,
        activation=config.hidden_act,
        tied_embeddings=bool(config.tie_word_embeddings),
        mlp_bias=mlp_bias,
    )


def attention_config(
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


def eos_token_ids(*sources: object) -> tuple[int, ...]:
    """Collect the `eos_token_id` of several configurations, each None, an int or a list, without duplicates."""
    ids: dict[int, None] = {}
    for source in sources:
        found = getattr(source, "eos_token_id", None)
        ids.update(dict.fromkeys([found] if isinstance(found, int) else found or []))
    return tuple(ids)


def sliding_windows(config: PreTrainedConfig) -> list[int | None]:
    """Return each layer's sliding window in tokens, by `config.layer_types`; `None`: full attention.

    Raises:
        UnsupportedModel: a layer has neither full nor sliding attention.
    """
    kinds = {"full_attention": None, "sliding_attention": config.sliding_window}
    unknown = set(config.layer_types) - set(kinds)
    if unknown:
        raise UnsupportedModel(f"layers of type {', '.join(sorted(unknown))}")
    return [kinds[kind] for kind in config.layer_types]


def _shape(config: PreTrainedConfig, attention: AttentionConfig) -> ModelShape:
    return ModelShape(
        model_type=config.model_type,
        layers=config.num_hidden_layers,
        query_heads=attention.query_heads,
        kv_heads=attention.kv_heads,
        head_size=attention.head_size,
        vocab_size=config.vocab_size,
        max_position=max_context_length(config),
        eos_token_ids=eos_token_ids(config),
    )
