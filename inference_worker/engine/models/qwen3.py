"""Qwen 3, dense: each query and key head is normalised before it is rotated."""

from __future__ import annotations

from transformers import PreTrainedConfig

from inference_worker.engine.layers.attention import LayerPattern
from inference_worker.engine.layers.decoder import DecoderConfig
from inference_worker.engine.models.family import attention_config, decoder_config, sliding_windows


def describe(config: PreTrainedConfig) -> DecoderConfig:
    """Return the decoder's configuration for a `Qwen3Config`."""
    bias = config.attention_bias
    attention = attention_config(config, qkv_bias=bias, output_bias=bias, qk_norm_eps=config.rms_norm_eps)
    layers = tuple(LayerPattern(sliding_window=window) for window in sliding_windows(config))
    return decoder_config(config, attention, layers)
