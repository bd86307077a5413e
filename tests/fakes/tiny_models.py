"""Tiny random models of `transformers`, saved as they are published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

BASE: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def save_tiny(folder: Path, model_type: str, **changes: Any) -> PreTrainedModel:
    """Save a random model; returns it for comparison, in float32 and evaluation mode.

    Weights are drawn wide (norms and biases too), so that a piece left out or swapped changes the logits.
    """
    torch.manual_seed(7)
    config = AutoConfig.for_model(model_type, **{**BASE, **changes})
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    model.save_pretrained(folder)
    return model
