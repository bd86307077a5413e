"""Tests of the `transformers` backend: a model equals its original forward pass, or is rejected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from inference_worker.engine.loading.model_loader import load_model
from inference_worker.engine.models.transformers_backend import TransformersModel
from inference_worker.errors import BadWeights, UnsupportedModel
from inference_worker.model_files.model_source import resolve
from tests.fakes.packed_steps import packed_logits, random_sequences
from tests.fakes.tiny_models import save_tiny

CPU = torch.device("cpu")

CASES: dict[str, dict[str, Any]] = {
    "gpt_neox": {"num_key_value_heads": 4},
    "olmo2": {},
    "gemma": {"head_dim": 16},
    "gemma3_text": {"head_dim": 16, "sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"] * 2},
    "gemma2": {"head_dim": 16, "sliding_window": 6, "query_pre_attn_scalar": 1, "attn_logit_softcapping": 2.0},
    "gpt_oss": {"head_dim": 16, "sliding_window": 6, "num_local_experts": 4, "num_experts_per_tok": 2},
    "phi3": {},
    "starcoder2": {"sliding_window": 5},
    "cohere": {"logit_scale": 0.25},
    "granite": {"logits_scaling": 3.0},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "gpt2": {"n_inner": 48},
    "mixtral": {"num_local_experts": 4, "sliding_window": None},
}


@pytest.mark.parametrize("model_type", CASES)
@torch.inference_mode()
def test_logits_equal_those_of_transformers(model_type: str, tmp_path: Path) -> None:
    theirs = save_tiny(tmp_path, model_type, **CASES[model_type])
    ours = load_model(resolve(str(tmp_path)), torch.float32, CPU)
    assert isinstance(ours, TransformersModel)
    sequences = random_sequences(ours.shape.vocab_size)
    for ours_rows, ids in zip(packed_logits(ours, sequences, [7, 1, 9]), sequences, strict=True):
        torch.testing.assert_close(ours_rows, theirs(torch.tensor([ids])).logits[0], atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [
        ("mamba", {"state_size": 4}),  # no attention
        ("bloom", {"n_head": 4, "n_layer": 4}),  # position biases instead of positions
        ("lfm2", {"full_attn_idxs": [1, 3]}),  # convolutions between attention layers
    ],
)
def test_unsupported_attention_is_rejected(model_type: str, changes: dict[str, Any], tmp_path: Path) -> None:
    save_tiny(tmp_path, model_type, **changes)
    with pytest.raises(UnsupportedModel):
        load_model(resolve(str(tmp_path)), torch.float32, CPU)


def test_encoder_decoder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5"}))
    save_file({"x": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(UnsupportedModel, match="encoder-decoder"):
        load_model(resolve(str(tmp_path)), torch.float32, CPU)


def test_missing_tensor_is_named(tmp_path: Path) -> None:
    save_tiny(tmp_path, "olmo2")
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["model.layers.2.mlp.up_proj.weight"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(BadWeights, match=r"model\.layers\.2\.mlp\.up_proj\.weight"):
        load_model(resolve(str(tmp_path)), torch.float32, CPU)
