"""Tests of GGUF files: they load as the model that they were made from; invalid sizes are rejected."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, GgufConfig, PreTrainedModel

from inference_worker.engine.causal_lm import CausalLM
from inference_worker.engine.loading.model_loader import load_model
from inference_worker.engine.weights import gguf_file
from inference_worker.engine.weights.gguf_architectures import ARCHITECTURES
from inference_worker.engine.weights.gguf_file import GGUFFile
from inference_worker.errors import BadWeights, UnsupportedModel
from inference_worker.model_files.gguf_metadata import read_header
from inference_worker.model_files.gguf_parts import GGUFPart
from inference_worker.model_files.model_source import resolve
from tests.fakes import gguf_writer
from tests.fakes.packed_steps import packed_logits, random_sequences
from tests.fakes.tiny_models import save_tiny

CPU = torch.device("cpu")
HOME = Path(__file__).parents[4] / ".headrace" / "models"
NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"} | {
    f"self_attn.{theirs}": ours
    for theirs, ours in {
        "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
        "q_norm": "attn_q_norm", "k_norm": "attn_k_norm",
    }.items()
} | {f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")}  # fmt: skip
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def stored_name(name: str) -> str:
    stem, _, kind = name.rpartition(".")
    if stem in TOP:
        return f"{TOP[stem]}.{kind}"
    _, _, block, part = stem.split(".", 3)
    return f"blk.{block}.{NAMES[part]}.{kind}"


def interleave(weights: np.ndarray, heads: int) -> np.ndarray:
    """`permute` of llama.cpp's `convert_hf_to_gguf.py`."""
    halves = weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    return halves.swapaxes(1, 2).reshape(weights.shape)


def write_gguf(
    path: Path,
    model: PreTrainedModel,
    *,
    factors: np.ndarray | None = None,
    kind: Any = gguf.GGMLQuantizationType.F32,
    kinds: Mapping[str, Any] | None = None,
    parts: int = 0,
) -> None:
    """Write a `transformers` model as llama.cpp's converter does.

    `kinds`: types of matrices by the last part of their stored name, in place of `kind`. `parts`: tensors per file.
    """
    config = model.config
    writer = gguf_writer.begin(path, config.model_type, config, parts=parts)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, parameter in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = parameter.numpy()
        part = name.split(".")[-2]
        if part in heads and ARCHITECTURES[config.model_type].permuted:
            values = interleave(values, heads[part])
        if values.ndim == 1:
            writer.add_tensor(stored_name(name), values)
        else:
            stored = stored_name(name)
            own = (kinds or {}).get(stored.split(".")[-2], kind)
            writer.add_tensor(stored, gguf.quants.quantize(values, own), raw_dtype=own)
    if factors is not None:
        writer.add_tensor("rope_freqs.weight", factors)
    gguf_writer.end(writer)


def load(path: Path) -> CausalLM:
    return load_model(resolve(str(path)), torch.float32, CPU)


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [
        ("llama", {}),
        ("llama", {"tie_word_embeddings": True, "head_dim": 16, "attention_bias": True}),
        ("qwen2", {"tie_word_embeddings": True}),
        ("qwen3", {"head_dim": 16}),
        ("smollm3", {}),
    ],
)
def test_logits_equal_those_of_the_model_it_was_made_of(
    model_type: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    theirs = save_tiny(tmp_path / "theirs", model_type, **changes)
    path = tmp_path / "tiny.gguf"
    write_gguf(path, theirs)
    ours = load(path)
    assert ours.shape.eos_token_ids == (2,)
    sequences = random_sequences(97)
    with torch.inference_mode():
        for rows, ids in zip(packed_logits(ours, sequences, [9]), sequences, strict=True):
            torch.testing.assert_close(rows, theirs(torch.tensor([ids])).logits[0], atol=1e-4, rtol=1e-4)


def test_rope_factors_are_llama3_scaling(tmp_path: Path) -> None:
    theirs = save_tiny(
        tmp_path / "theirs",
        "llama",
        rope_parameters={"rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
    )  # fmt: skip
    plain = 1.0 / 10000.0 ** (torch.arange(0, 8, 2) / 8)
    factors = (plain / theirs.model.rotary_emb.inv_freq).numpy()
    assert factors.max() > 1
    write_gguf(tmp_path / "tiny.gguf", theirs, factors=factors)
    sequences = random_sequences(97)
    with torch.inference_mode():
        for rows, ids in zip(packed_logits(load(tmp_path / "tiny.gguf"), sequences, [9]), sequences, strict=True):
            torch.testing.assert_close(rows, theirs(torch.tensor([ids])).logits[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_1"])
def test_quantised_tensors_are_near(kind: str, tmp_path: Path) -> None:
    theirs = save_tiny(tmp_path / "theirs", "llama", intermediate_size=64)
    write_gguf(tmp_path / "tiny.gguf", theirs, kind=gguf.GGMLQuantizationType[kind])
    file = GGUFFile(tmp_path / "tiny.gguf")
    found = {name: file.read(name) for name in file.shapes()}
    assert set(found) == set(theirs.state_dict())
    for name, expected in theirs.state_dict().items():
        assert (found[name] - expected).abs().max() < 0.15, name


def test_a_tensor_beyond_the_end_of_the_file(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", save_tiny(tmp_path / "theirs", "llama"))
    whole = (tmp_path / "tiny.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[:-64])
    with pytest.raises(BadWeights, match="beyond the end"):
        load(tmp_path / "cut.gguf")


def test_a_tensor_under_two_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Together both have the shape of the one, which would be loaded with half of its rows."""
    path = tmp_path / "tiny.gguf"
    write_gguf(path, save_tiny(tmp_path / "theirs", "llama"))
    header = read_header(path)
    query = next(info for info in header.tensors if info.name == "blk.0.attn_q.weight")
    half = replace(query, shape=(query.shape[0] // 2, query.shape[1]))
    others = [info for info in header.tensors if info is not query]
    twice = (half, replace(half, name="model.layers.0.self_attn.q_proj.weight"), *others)
    monkeypatch.setattr(gguf_file, "read_parts", lambda _: (GGUFPart(path, replace(header, tensors=twice)),))
    with pytest.raises(BadWeights, match="are the same tensor"):
        load(path)


@pytest.mark.parametrize("shape", [(2**40, 2**40), (0, 32), (2**63, 2**63)])
def test_impossible_shapes(shape: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, save_tiny(tmp_path / "theirs", "llama"))
    header = read_header(path)
    lie = replace(header.tensors[0], shape=shape, ggml_type=0)
    part = GGUFPart(path, replace(header, tensors=(lie, *header.tensors[1:])))
    monkeypatch.setattr(gguf_file, "read_parts", lambda _: (part,))
    with pytest.raises(BadWeights):
        load(path)


def test_a_split_model_is_read_whole(tmp_path: Path) -> None:
    theirs = save_tiny(tmp_path / "theirs", "llama")
    write_gguf(tmp_path / "tiny.gguf", theirs, parts=5)
    first, *others = sorted(tmp_path.glob("tiny-*.gguf"))
    assert len(others) > 3
    sequences = random_sequences(97)
    with torch.inference_mode():
        for rows, ids in zip(packed_logits(load(first), sequences, [9]), sequences, strict=True):
            torch.testing.assert_close(rows, theirs(torch.tensor([ids])).logits[0], atol=1e-4, rtol=1e-4)
    others[-1].write_bytes(others[-1].read_bytes()[:-64])
    with pytest.raises(BadWeights, match="beyond the end"):
        load(first)


@pytest.mark.parametrize(
    ("architecture", "error", "message"),
    [
        ("mamba", UnsupportedModel, "mamba"),
        ("llama", BadWeights, "lacks the key"),
    ],
    ids=["an architecture that we do not read", "metadata that is missing"],
)
def test_errors_name_their_cause(architecture: str, error: type[Exception], message: str, tmp_path: Path) -> None:
    """The file's only metadata is its architecture."""
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", architecture)
    writer.add_tensor("token_embd.weight", np.zeros((4, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(error, match=message):
        load(tmp_path / "x.gguf")


@pytest.mark.model
def test_smollm2_equals_transformers_load_of_the_same_file() -> None:
    named = os.environ.get("HEADRACE_TEST_MODEL")
    path = Path(named) if named else next(HOME.glob("*.gguf"), None)
    if path is None:
        pytest.skip("no model file")
    theirs = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32
    ).eval()
    ours = load(path)
    assert (ours.shape.layers, ours.shape.kv_heads, ours.shape.max_position) == (30, 3, 8192)
    sequences = random_sequences(ours.shape.vocab_size)
    with torch.inference_mode():
        for rows, ids in zip(packed_logits(ours, sequences, [16, 5]), sequences, strict=True):
            torch.testing.assert_close(rows, theirs(torch.tensor([ids])).logits[0], atol=2e-3, rtol=1e-3)
