"""Our own definitions compute what `transformers` computes, packed, mixed and chunked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.loading.model_loader import load_model
from inference_worker.model_files.model_source import resolve
from tests.fakes.packed_steps import packed_logits, random_sequences
from tests.fakes.tiny_models import save_tiny

WINDOW = {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 2}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama-tied": ("llama", {"tie_word_embeddings": True}),
    "llama-biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-wide-heads": ("llama", {"head_dim": 16}),
    "llama-one-kv-head": ("llama", {"num_key_value_heads": 1, "hidden_act": "gelu"}),
    "llama-rope-llama3": ("llama", {"rope_parameters": LLAMA3}),
    "llama-rope-linear": (
        "llama",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}},
    ),
    "llama-rope-yarn": ("llama", {"rope_parameters": YARN}),
    "mistral": ("mistral", {"sliding_window": None}),
    "mistral-window": ("mistral", {"sliding_window": 5, "head_dim": 12}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}),
    "qwen2-window": ("qwen2", WINDOW),
    "qwen3": ("qwen3", {"head_dim": 16}),
    "qwen3-window": ("qwen3", {**WINDOW, "head_dim": 8, "tie_word_embeddings": True}),
    "smollm3": ("smollm3", {}),
    "smollm3-window": (
        "smollm3",
        {"use_sliding_window": True, "sliding_window": 6, "tie_word_embeddings": False, "no_rope_layer_interval": 2},
    ),
}


@pytest.mark.parametrize("case", CASES)
@torch.inference_mode()
def test_logits_equal_those_of_transformers(case: str, tmp_path: Path) -> None:
    model_type, changes = CASES[case]
    theirs = save_tiny(tmp_path, model_type, **changes)
    ours = load_model(resolve(str(tmp_path)), torch.float32, torch.device("cpu"))
    assert isinstance(ours, Decoder)
    sequences = random_sequences(ours.shape.vocab_size)
    expected = [theirs(torch.tensor([ids])).logits[0] for ids in sequences]
    for chunks in ([64], [7, 1, 3]):
        for ours_rows, their_rows in zip(packed_logits(ours, sequences, chunks), expected, strict=True):
            torch.testing.assert_close(ours_rows, their_rows, atol=1e-4, rtol=1e-4)


def test_shape_has_the_sizes_of_the_model(tmp_path: Path) -> None:
    save_tiny(tmp_path, "qwen3", head_dim=16, eos_token_id=[2, 5])
    shape = load_model(resolve(str(tmp_path)), torch.float32, torch.device("cpu")).shape
    assert (shape.model_type, shape.layers, shape.query_heads, shape.kv_heads) == ("qwen3", 4, 4, 2)
    assert (shape.head_size, shape.vocab_size, shape.max_position) == (16, 97, 128)
    assert shape.eos_token_ids == (2, 5)


@torch.inference_mode()
def test_bfloat16_stays_near_float32(tmp_path: Path) -> None:
    save_tiny(tmp_path, "llama")
    exact, integer = (
        packed_logits(load_model(resolve(str(tmp_path)), dtype, torch.device("cpu")), [[5, 6, 7, 8]], [3])[0]
        for dtype in (torch.float32, torch.bfloat16)
    )
    assert integer.dtype == torch.float32
    assert 0 < (exact - integer).abs().max() < 0.1 * exact.abs().max()
