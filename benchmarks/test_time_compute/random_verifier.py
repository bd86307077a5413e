"""Writes a verifier for the search benchmark: a process reward model of the generator's size with random weights."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

STEP_TAG = "<extra_0>"
"""Token after each step, at which the model scores."""


def write_verifier(generator: Path, folder: Path) -> None:
    """Write a verifier to `folder`, unless it exists, with tokenizer, chat template and sizes of the model `generator`.

    Weights are random: how long a score takes does not depend on them.
    """
    if (folder / "model.safetensors").is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(generator)
    tokenizer.add_tokens([AddedToken(STEP_TAG, special=True)], special_tokens=True)
    tokenizer.save_pretrained(folder)
    size = AutoConfig.from_pretrained(generator)
    config = AutoConfig.for_model(
        "qwen2",
        vocab_size=len(Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab()),
        hidden_size=size.hidden_size,
        intermediate_size=size.intermediate_size,
        num_hidden_layers=size.num_hidden_layers,
        num_attention_heads=size.num_attention_heads,
        num_key_value_heads=size.num_key_value_heads,
        max_position_embeddings=size.max_position_embeddings,
        tie_word_embeddings=True,
    )
    torch.manual_seed(1)
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    file, described = folder / "model.safetensors", folder / "config.json"
    hidden = size.hidden_size
    head = {
        "score.0.weight": torch.randn(hidden, hidden) * 0.05,
        "score.0.bias": torch.zeros(hidden),
        "score.2.weight": torch.randn(2, hidden) * 0.05,
        "score.2.bias": torch.zeros(2),
    }
    weights = load_file(file) | {name: tensor.to(torch.bfloat16) for name, tensor in head.items()}
    save_file(weights, file, metadata={"format": "pt"})
    changes = {"architectures": ["Qwen2ForProcessRewardModel"], "num_labels": 2}
    described.write_text(json.dumps(json.loads(described.read_text()) | changes))
