"""Metadata of a GGUF become a configuration; impossible numbers are refused in one line, before a model is built."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from inference_worker.engine.weights.gguf_config import FileContent, model_config
from inference_worker.errors import BadWeights, ModelError, UnsupportedModel
from inference_worker.model_files.gguf_metadata import GGUFHeader

LLAMA: dict[str, Any] = {
    "context_length": 128,
    "embedding_length": 32,
    "block_count": 4,
    "feed_forward_length": 48,
    "attention.head_count": 4,
    "attention.layer_norm_rms_epsilon": 1e-5,
}


def content(architecture: str = "llama", tensors: dict[str, torch.Tensor] | None = None, **changes: Any) -> FileContent:
    keys = LLAMA | {name.replace("__", "."): value for name, value in changes.items()}
    metadata = {f"{architecture}.{name}": value for name, value in keys.items() if value is not None}
    header = GGUFHeader({"general.architecture": architecture, **metadata}, (), 0)
    return FileContent(header, {"token_embd.weight": (97, 32)}, (tensors or {}).get)


def test_optional_keys_have_defaults() -> None:
    config = model_config(content(), "llama")
    assert (config.vocab_size, config.num_key_value_heads, config.head_dim) == (97, 4, 8)
    assert config.rope_parameters == {"rope_theta": 10000.0, "rope_type": "default"}
    assert config.tie_word_embeddings is True
    assert config.attention_bias is False


def test_rotary_scaling() -> None:
    scaled: dict[str, Any] = {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0, "rope__freq_base": 5000.0}
    rope = model_config(content(rope__scaling__original_context_length=32, **scaled), "llama").rope_parameters
    expected = {"rope_theta": 5000.0, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
    assert expected.items() <= rope.items()


def test_a_number_per_layer_is_one_number_if_all_are_equal() -> None:
    assert model_config(content(feed_forward_length=[48] * 4), "llama").intermediate_size == 48
    with pytest.raises(UnsupportedModel, match="differs from layer to layer"):
        model_config(content(feed_forward_length=[48, 64, 48, 48]), "llama")


def test_long_factors_of_phi3() -> None:
    factors = {
        "rope_factors_short.weight": torch.tensor([1.0, 1.5, 2.0]),
        "rope_factors_long.weight": torch.tensor([2.0, 4.0, 8.0]),
    }
    described = content(
        "phi3",
        factors,
        rope__dimension_count=6,
        rope__scaling__original_context_length=32,
        attention__sliding_window=16,
    )
    config = model_config(described, "phi3")
    assert config.rope_parameters["rope_type"] == "longrope"
    assert config.rope_parameters["long_factor"] == [2.0, 4.0, 8.0]
    assert config.rope_parameters["partial_rotary_factor"] == 0.75
    assert config.original_max_position_embeddings == 32
    assert config.sliding_window == 16


def test_layers_of_gemma2() -> None:
    config = model_config(content("gemma2"), "gemma2")
    assert config.layer_types == ["sliding_attention", "full_attention"] * 2
    assert (config.sliding_window, config.query_pre_attn_scalar) == (4096, 8)
    assert (config.attn_logit_softcapping, config.final_logit_softcapping) == (50.0, 30.0)
    wide = content("gemma2", block_count=46, attention__key_length=16)
    assert model_config(wide, "gemma2").query_pre_attn_scalar == 8
    with pytest.raises(BadWeights, match="attn_logit_softcapping is 0"):
        model_config(content("gemma2", attn_logit_softcapping=0.0), "gemma2")


def test_experts_of_gpt_oss() -> None:
    experts: dict[str, Any] = {"expert_count": 4, "expert_used_count": 2, "attention__sliding_window": 16}
    config = model_config(content("gpt-oss", expert_feed_forward_length=64, **experts), "gpt_oss")
    assert (config.num_local_experts, config.num_experts_per_tok, config.intermediate_size) == (4, 2, 64)
    assert config.layer_types == ["sliding_attention", "full_attention"] * 2
    with pytest.raises(BadWeights, match="5 experts of 4"):
        model_config(content("gpt-oss", **experts | {"expert_used_count": 5}), "gpt_oss")


def test_layers_of_gemma3() -> None:
    config = model_config(content("gemma3", attention__sliding_window=16, block_count=7), "gemma3_text")
    assert config.layer_types == ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"]
    assert config.rope_parameters["sliding_attention"]["rope_theta"] == 10000.0
    assert config.query_pre_attn_scalar == 8


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"block_count": 10**9}, UnsupportedModel, "layers"),
        ({"block_count": 0}, BadWeights, "block_count is 0"),
        ({"block_count": None}, BadWeights, "lacks the key llama.block_count"),
        ({"embedding_length": 2**40}, BadWeights, "embedding_length"),
        ({"embedding_length": "32"}, BadWeights, "embedding_length"),
        ({"attention__head_count": 0}, BadWeights, "head_count"),
        ({"attention__head_count": -4}, BadWeights, "head_count"),
        ({"attention__head_count_kv": []}, ModelError, "head_count_kv"),
        ({"attention__layer_norm_rms_epsilon": float("nan")}, BadWeights, "epsilon"),
        ({"attention__layer_norm_rms_epsilon": "small"}, BadWeights, "epsilon"),
        ({"rope__freq_base": True}, BadWeights, "freq_base"),
        ({"rope__dimension_count": 4}, UnsupportedModel, "a part of the head"),
        ({"attention__value_length": 16}, UnsupportedModel, "values of another size"),
        ({"rope__scaling__type": "longrope"}, UnsupportedModel, "rotary scaling 'longrope'"),
        ({"rope__scaling__type": "linear", "rope__scaling__factor": 0.0}, BadWeights, "factor"),
        ({"attention__head_count_kv": 3}, BadWeights, "can't share 3"),
        ({"attention__key_length": 9}, BadWeights, "9"),
    ],
)
def test_impossible_metadata(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        model_config(content(**changes), "llama")
    assert "\n" not in str(caught.value)


def test_a_file_without_embeddings() -> None:
    described = content()
    with pytest.raises(BadWeights, match=r"token_embd\.weight"):
        model_config(FileContent(described.header, {}, described.read), "llama")
