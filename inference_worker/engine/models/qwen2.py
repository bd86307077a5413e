"""Qwen 1.5, 2 and 2.5: biases on query, key and value; upper layers may have a sliding window."""

from __future__ import annotations

from transformers import PreTrainedConfig

from inference_worker.engine.layers.attention import LayerPattern
from inference_worker.engine.layers.decoder import DecoderConfig
from inference_worker.engine.models.family import attention_config, decoder_config, sliding_windows


def describe(config: PreTrainedConfig) -> DecoderConfig:
    """Return the decoder's configuration for a `Qwen2Config`."""
    layers = tuple(LayerPattern(sliding_window=window) for window in sliding_windows(config))
    return decoder_config(config, attention_config(config, qkv_bias=True), layers)
