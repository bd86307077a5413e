"""Small models with the same weights everywhere, of which the GGUF files in `tests/fakes/gguf/` were made."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from tests.fakes.tiny_models import BASE

FILES = Path(__file__).parent / "gguf"

SMALL: dict[str, Any] = {**BASE, "intermediate_size": 64, "num_hidden_layers": 2}
_ROPE = {"rope_type": "default", "rope_theta": 5000.0}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {"rope_parameters": _ROPE}),
    "mistral": ("mistral", {"rope_parameters": _ROPE, "sliding_window": None, "head_dim": 8}),
    "qwen2": ("qwen2", {"rope_parameters": _ROPE}),
    "qwen3": ("qwen3", {"rope_parameters": _ROPE, "head_dim": 16}),
    "smollm3": ("smollm3", {"rope_parameters": _ROPE, "num_hidden_layers": 4}),
    "gemma": ("gemma", {"head_dim": 16}),
    "gemma3": (
        "gemma3_text",
        {"head_dim": 16, "query_pre_attn_scalar": 16, "num_hidden_layers": 7, "sliding_window": 16},
    ),
    "granite": (
        "granite",
        {
            "rope_parameters": _ROPE,
            "attention_multiplier": 0.2,
            "embedding_multiplier": 3.0,
            "residual_multiplier": 0.7,
            "logits_scaling": 2.0,
        },
    ),
    "olmo2": ("olmo2", {"rope_parameters": _ROPE}),
    "phi3": ("phi3", {"rope_parameters": _ROPE, "sliding_window": 20}),
    "qwen3moe": (
        "qwen3_moe",
        {
            "rope_parameters": _ROPE,
            "head_dim": 16,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "norm_topk_prob": True,
        },
    ),
    "wide": (
        "llama",
        {
            "hidden_size": 256,
            "intermediate_size": 256,
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "rope_parameters": _ROPE,
        },
    ),
}
"""Model type of `transformers` and changes of `SMALL`, by name. `wide` has the widths that K-quants need."""

QUANTISED = ("Q4_K_M", "Q5_K_M", "Q3_K_M", "Q2_K", "Q6_K", "IQ4_NL", "IQ4_XS")
"""Quantisations of the model `wide`, by `llama-quantize`."""


def gguf_model(name: str) -> PreTrainedModel:
    """Return a model of `MODELS`, in float32 and evaluation mode, with weights that float16 represents exactly."""
    model_type, changes = MODELS[name]
    config = AutoConfig.for_model(model_type, **{**SMALL, **changes})
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            # Biases and weights of norms are near what they start with, which is 0 or 1.
            middle, width = (
                (parameter.mean().round(), 1.0) if parameter.ndim == 1 else (0.0, parameter.shape[-1] ** -0.5)
            )
            # This generator's numbers are the same in every version of NumPy.
            drawn = np.random.RandomState(zlib.crc32(path.encode())).random_sample(tuple(parameter.shape))
            parameter.copy_(middle + (torch.from_numpy(drawn).float() - 0.5) * 2 * width)
            parameter.copy_(parameter.half().float())
    return model
