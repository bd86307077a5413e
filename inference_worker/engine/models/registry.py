"""The model families that have a definition of our own, by `model_type`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from transformers import PreTrainedConfig

from inference_worker.engine.layers.decoder import DecoderConfig
from inference_worker.engine.models import llama, mistral, qwen2, qwen3, smollm3

FAMILIES: Mapping[str, Callable[[PreTrainedConfig], DecoderConfig]] = MappingProxyType(
    {
        "llama": llama.describe,
        "mistral": mistral.describe,
        "qwen2": qwen2.describe,
        "qwen3": qwen3.describe,
        "smollm3": smollm3.describe,
    }
)
