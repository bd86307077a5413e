"""Reading the pooling of a model folder, and rejection of unsupported ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inference_worker.errors import BadWeights, UnsupportedModel
from inference_worker.model_files.embedding_folder import EmbeddingConfig, read_config
from inference_worker.model_files.model_source import resolve
from router.messages import Task


def module(kind: str, path: str = "") -> dict[str, Any]:
    return {"idx": 0, "name": "0", "path": path, "type": f"sentence_transformers.models.{kind}"}


def folder_of(tmp_path: Path, modules: Any, pooling: Any = None, own: Any = None) -> Path:
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    if pooling is not None:
        (tmp_path / "1_Pooling").mkdir()
        (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    if own is not None:
        (tmp_path / "sentence_bert_config.json").write_text(json.dumps(own))
    return tmp_path


def pooled(tmp_path: Path, **pooling: Any) -> Path:
    return folder_of(tmp_path, [module("Transformer"), module("Pooling", "1_Pooling"), module("Normalize")], pooling)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        ({"pooling_mode_cls_token": True, "include_prompt": True}, "cls"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "mean"),
        ({"pooling_mode": "cls", "include_prompt": True}, "cls"),
    ],
)
def test_poolings(tmp_path: Path, given: dict[str, Any], expected: str) -> None:
    assert read_config(pooled(tmp_path, **given)).pooling == expected


@pytest.mark.parametrize(
    "given",
    [
        {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
        {"pooling_mode_weightedmean_tokens": True},
        {"pooling_mode": "strange"},
        {},
    ],
)
def test_unsupported_poolings(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedModel, match="pooling"):
        read_config(pooled(tmp_path, **given))


def test_an_unsupported_step_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="Dense"):
        read_config(folder_of(tmp_path, [module("Transformer"), module("Dense", "2_Dense")]))


@pytest.mark.parametrize("path", ["../outside", "/etc", "a/b"])
def test_a_module_outside_of_the_folder_is_rejected(tmp_path: Path, path: str) -> None:
    with pytest.raises(BadWeights, match="leads out"):
        read_config(folder_of(tmp_path, [module("Pooling", path)]))


@pytest.mark.parametrize("modules", [{}, [1], "x"])
def test_damaged_modules(tmp_path: Path, modules: Any) -> None:
    with pytest.raises(BadWeights):
        read_config(folder_of(tmp_path, modules))


def test_max_tokens_and_lowercase(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, [module("Transformer")], own={"max_seq_length": 256, "do_lower_case": True})
    assert read_config(folder) == EmbeddingConfig("mean", 256, lowercase=True)


def test_mean_pooling_is_the_default(tmp_path: Path) -> None:
    assert read_config(tmp_path) == EmbeddingConfig()


@pytest.mark.parametrize(
    ("architecture", "task"),
    [
        ("BertModel", Task.EMBED),
        ("XLMRobertaModel", Task.EMBED),
        ("RobertaForMaskedLM", Task.EMBED),
        ("LlamaForCausalLM", Task.GENERATE),
        ("GPT2LMHeadModel", Task.GENERATE),
    ],
)
def test_the_task_of_a_model(tmp_path: Path, architecture: str, task: Task) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    (tmp_path / "model.safetensors").touch()
    assert resolve(str(tmp_path)).task is task
    (tmp_path / "modules.json").write_text("[]")
    assert resolve(str(tmp_path)).task is Task.EMBED
