"""Tests of the written folder: shards, what stays unquantised, and nothing left behind by a failure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from inference_worker.engine.loading.model_loader import load_model, open_folder, read_config
from inference_worker.engine.quantising import folder_writer
from inference_worker.engine.quantising.folder_writer import MatrixError, new_folder, write_quantised
from inference_worker.engine.weights.quantised_folder import QuantisedFolder
from inference_worker.errors import BadWeights, UnsupportedModel
from inference_worker.model_files.model_source import resolve
from tests.fakes.packed_steps import packed_logits
from tests.fakes.quantised_models import WIDE
from tests.fakes.tiny_models import save_tiny

IDS = [number * 37 % 97 for number in range(400)]
"""The calibration text's token ids."""


def written(folder: Path, out: Path) -> tuple[list[MatrixError], list[tuple[int, int]]]:
    seen: list[tuple[int, int]] = []
    with new_folder(out) as partial:
        errors = write_quantised(
            folder,
            read_config(folder),
            "int4",
            partial,
            progress=lambda done, total: seen.append((done, total)),
            calibration=IDS,
        )
    return errors, seen


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save_tiny(tmp_path / "model", "llama", **WIDE, num_hidden_layers=2)
    (tmp_path / "model" / "tokenizer.json").write_text("{}")
    return tmp_path / "model"


def test_linear_layers_are_quantised_and_the_rest_is_copied(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    errors, seen = written(model, out)
    assert len(errors) == 2 * 7
    assert all(0 < error.mean_squared_error < 0.03 * error.mean_square for error in errors)
    weights = sum(error.weights for error in errors)
    assert (seen[0], seen[-1], len(seen)) == ((0, weights), (weights, weights), 15)
    before, after = load_file(model / "model.safetensors"), load_file(out / "model.safetensors")
    assert torch.equal(before["lm_head.weight"], after["lm_head.weight"])
    assert torch.equal(before["model.embed_tokens.weight"], after["model.embed_tokens.weight"])
    assert (out / "tokenizer.json").read_text() == "{}"
    config = json.loads((out / "config.json").read_text())
    assert config["quantization_config"]["ignore"] == ["lm_head"]
    assert config["hidden_size"] == 64
    assert {path.name for path in tmp_path.iterdir()} == {"model", "out"}
    checkpoint = open_folder(out)
    assert isinstance(checkpoint, QuantisedFolder)
    for error in errors:
        found = (checkpoint.read(error.name) - before[error.name].float()).square().mean().item()
        assert found == pytest.approx(error.mean_squared_error)


def test_inputs_that_are_no_multiple_of_32_stay_as_they_are(tmp_path: Path) -> None:
    save_tiny(tmp_path / "model", "llama", **{**WIDE, "intermediate_size": 72}, num_hidden_layers=1)
    errors, _ = written(tmp_path / "model", tmp_path / "out")
    assert len(errors) == 6
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["quantization_config"]["ignore"] == ["lm_head", "model.layers.0.mlp.down_proj"]
    load_model(resolve(str(tmp_path / "out")), torch.float32, torch.device("cpu"))


def test_large_models_have_several_shards(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(model, tmp_path / "one")
    monkeypatch.setattr(folder_writer, "_SHARD_BYTES", 20_000)
    written(model, tmp_path / "several")
    shards = sorted(path.name for path in (tmp_path / "several").glob("*.safetensors"))
    assert len(shards) > 2
    assert shards[0] == f"model-00001-of-{len(shards):05}.safetensors"
    one, several = (
        load_model(resolve(str(tmp_path / name)), torch.float32, torch.device("cpu")) for name in ("one", "several")
    )
    ids = [[5, 6, 7]]
    assert torch.equal(packed_logits(one, ids, [3])[0], packed_logits(several, ids, [3])[0])


def test_experts_are_refused(tmp_path: Path) -> None:
    save_tiny(tmp_path / "model", "qwen3_moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32)
    with pytest.raises(UnsupportedModel, match="a qwen3_moe of this kind can't be quantised"):
        written(tmp_path / "model", tmp_path / "out")


def test_a_failure_leaves_nothing(model: Path, tmp_path: Path) -> None:
    def fail(done: int, _: int) -> None:
        if done:
            raise BadWeights("broken")

    with pytest.raises(BadWeights, match="broken"), new_folder(tmp_path / "out") as partial:
        write_quantised(model, read_config(model), "fp8", partial, progress=fail, calibration=[])
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
