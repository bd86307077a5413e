"""Llama 1 to 3, SmolLM 1 and 2, and other models of type `llama`: full attention everywhere, optional biases."""

from __future__ import annotations

from transformers import PreTrainedConfig

from inference_worker.engine.layers.attention import LayerPattern
from inference_worker.engine.layers.decoder import DecoderConfig
from inference_worker.engine.models.family import attention_config, decoder_config


def describe(config: PreTrainedConfig) -> DecoderConfig:
    """Return the decoder's configuration for a `LlamaConfig`."""
    attention = attention_config(config, qkv_bias=config.attention_bias, output_bias=config.attention_bias)
    layers = (LayerPattern(),) * config.num_hidden_layers
    return decoder_config(config, attention, layers, mlp_bias=config.mlp_bias)
