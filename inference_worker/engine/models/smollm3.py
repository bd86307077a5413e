"""SmolLM3: no rotary embedding in every fourth layer (NoPE; Yang et al., "RoPE to NoPE and Back Again", 2025)."""

from __future__ import annotations

from transformers import PreTrainedConfig

from inference_worker.engine.layers.attention import LayerPattern
from inference_worker.engine.layers.decoder import DecoderConfig
from inference_worker.engine.models.family import attention_config, decoder_config, sliding_windows


def describe(config: PreTrainedConfig) -> DecoderConfig:
    """Return the decoder's configuration; a `SmolLM3Config.no_rope_layers` has 1 where there *is* rotation."""
    bias = config.attention_bias
    attention = attention_config(config, qkv_bias=bias, output_bias=bias)
    reach = sliding_windows(config) if config.use_sliding_window else [None] * config.num_hidden_layers
    layers = tuple(LayerPattern(bool(rope), window) for rope, window in zip(config.no_rope_layers, reach, strict=False))
    return decoder_config(config, attention, layers, mlp_bias=config.mlp_bias)
