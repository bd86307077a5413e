"""Mistral 7B and its descendants: Llama with one sliding window for all layers, or none."""

from __future__ import annotations

from transformers import PreTrainedConfig

from inference_worker.engine.layers.attention import LayerPattern
from inference_worker.engine.layers.decoder import DecoderConfig
from inference_worker.engine.models.family import attention_config, decoder_config


def describe(config: PreTrainedConfig) -> DecoderConfig:
    """Return the decoder's configuration for a `MistralConfig`."""
    layers = (LayerPattern(sliding_window=config.sliding_window),) * config.num_hidden_layers
    return decoder_config(config, attention_config(config), layers)
