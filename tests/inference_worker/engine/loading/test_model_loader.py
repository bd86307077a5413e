"""Tests of loading: damaged, incomplete and hostile files are reported in one line, before memory is allocated."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from inference_worker.engine.causal_lm import CausalLM
from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.loading.model_loader import load_model
from inference_worker.engine.weights.weights import SafetensorsFolder, check
from inference_worker.errors import BadWeights, ModelError, UnsupportedModel
from inference_worker.model_files.model_source import resolve
from tests.fakes.packed_steps import packed_logits
from tests.fakes.tiny_models import save_tiny

CPU = torch.device("cpu")
SHARD = "model.safetensors"


def load(folder: Path) -> CausalLM:
    return load_model(resolve(str(folder)), torch.float32, CPU)


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_tensors(folder: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / SHARD)
    edit(tensors)
    save_file(tensors, folder / SHARD, {"format": "pt"})


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    save_tiny(tmp_path, "llama")
    return tmp_path


def test_missing_tensor_is_named(llama: Path) -> None:
    edit_tensors(llama, lambda tensors: tensors.pop("model.layers.1.self_attn.k_proj.weight"))
    with pytest.raises(BadWeights, match=r"model\.layers\.1\.self_attn\.k_proj\.weight"):
        load(llama)


def test_unexpected_tensor_is_named(llama: Path) -> None:
    edit_tensors(llama, lambda tensors: tensors.update({"model.layers.0.self_attn.q_proj.bias": torch.zeros(32)}))
    with pytest.raises(BadWeights, match=r"model\.layers\.0\.self_attn\.q_proj\.bias"):
        load(llama)


def test_surplus_of_old_checkpoints_is_left_out(llama: Path) -> None:
    edit_tensors(llama, lambda tensors: tensors.update({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}))
    load(llama)


def test_tied_embeddings_ignore_a_stored_head(tmp_path: Path) -> None:
    theirs = save_tiny(tmp_path, "llama", tie_word_embeddings=True)
    edit_tensors(tmp_path, lambda tensors: tensors.update({"lm_head.weight": torch.zeros(97, 32)}))
    with torch.inference_mode():
        expected = theirs(torch.tensor([[5, 6]])).logits[0]
    torch.testing.assert_close(packed_logits(load(tmp_path), [[5, 6]], [2])[0], expected, atol=1e-4, rtol=1e-4)


def test_wrong_shape_costs_no_memory(llama: Path) -> None:
    edit_config(llama, hidden_size=2**30, head_dim=8)
    with pytest.raises(BadWeights, match="the configuration says"):
        load(llama)


def test_shards_of_an_index(llama: Path) -> None:
    whole = load_file(llama / SHARD)
    expected = packed_logits(load(llama), [[5, 6, 7]], [3])[0]
    (llama / SHARD).unlink()
    names = sorted(whole)
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, members in parts.items():
        save_file({name: whole[name] for name in members}, llama / file, {"format": "pt"})
    parameters = {name: file for file, members in parts.items() for name in members}
    (llama / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parameters}))
    assert torch.equal(packed_logits(load(llama), [[5, 6, 7]], [3])[0], expected)
    (llama / "model-2.safetensors").unlink()
    with pytest.raises(BadWeights, match=r"model-2\.safetensors is missing"):
        load(llama)


@pytest.mark.parametrize("index", ["[]", "{", '{"weight_map": {"a": "../../secret"}}', '{"weight_map": {"a": 3}}'])
def test_hostile_index(index: str, llama: Path) -> None:
    (llama / "model.safetensors.index.json").write_text(index)
    with pytest.raises(BadWeights):
        load(llama)


def header(**tensors: Any) -> bytes:
    body = json.dumps(tensors).encode()
    return struct.pack("<Q", len(body)) + body


@pytest.mark.parametrize(
    "content",
    [
        b"",
        struct.pack("<Q", 10**15),
        header(x={"dtype": "F32", "shape": [10**15], "data_offsets": [0, 4 * 10**15]}) + bytes(64),
        header(x={"dtype": "F32", "shape": [2**63, 4], "data_offsets": [0, 64]}) + bytes(64),
        header(x={"dtype": "F32", "shape": [16], "data_offsets": [0, 64]}) + bytes(32),
        b"\x80\x04\x95pickle",
    ],
)
def test_hostile_safetensors_header(content: bytes, llama: Path) -> None:
    (llama / SHARD).write_bytes(content)
    with pytest.raises(BadWeights, match=SHARD) as caught:
        load(llama)
    assert "\n" not in str(caught.value)


def test_a_shard_that_links_out_of_the_folder(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / SHARD
    (llama / SHARD).rename(outside)
    (llama / SHARD).symlink_to(outside)
    with pytest.raises(BadWeights, match="leads out"):
        load(llama)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"model_type": "no_such_family"}, UnsupportedModel),
        ({"num_key_value_heads": 3}, UnsupportedModel),
        ({"hidden_act": "nonsense"}, UnsupportedModel),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}, UnsupportedModel),
        ({"hidden_size": "many"}, ModelError),
        ({"num_attention_heads": 0}, ModelError),
    ],
)
def test_configuration_that_we_do_not_serve(changes: dict[str, Any], error: type[Exception], llama: Path) -> None:
    edit_config(llama, **changes)
    with pytest.raises(error) as caught:
        load(llama)
    assert "\n" not in str(caught.value)


def test_a_repository_s_own_code_is_never_run(llama: Path) -> None:
    (llama / "evil.py").write_text("import os; os._exit(3)")
    edit_config(llama, model_type="evil", auto_map={"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"})
    with pytest.raises(UnsupportedModel):
        load(llama)


def test_broken_json(llama: Path) -> None:
    (llama / "config.json").write_text("{")
    with pytest.raises(ModelError):
        load(llama)


def test_end_ids_of_the_generation_config_are_joined_in(llama: Path) -> None:
    (llama / "generation_config.json").write_text(json.dumps({"eos_token_id": [9, 2]}))
    assert load(llama).shape.eos_token_ids == (2, 9)


def test_check_runs_without_memory(llama: Path) -> None:
    model = load(llama)
    assert isinstance(model, Decoder)
    model.to("meta")
    check(model, SafetensorsFolder(llama), tied_embeddings=False)
