"""Locating models, and the errors for what can't be served."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError
from huggingface_hub.utils._paths import filter_repo_objects

from inference_worker.errors import BadWeights, ModelNotFound, UnsupportedModel
from inference_worker.model_files.model_source import file_inside, resolve


def folder_with(path: Path, *names: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name in names:
        (path / name).touch()
    return path


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct"),
        ("Qwen2.5-0.5B-Instruct-Q4_K_M.gguf", "qwen2.5-0.5b-instruct"),
        ("model-UD-IQ2_XXS.gguf", "model"),
        ("tiny.f16.gguf", "tiny"),
        ("llama-3.gguf", "llama-3"),
        ("My Model.gguf", "my-model"),
        ("Big-Q4_K_M-00001-of-00003.gguf", "big"),
    ],
)
def test_a_gguf_is_named_without_its_quantisation(file: str, name: str, tmp_path: Path) -> None:
    (tmp_path / file).touch()
    source = resolve(str(tmp_path / file))
    assert (source.kind, source.path, source.served_name) == ("gguf", tmp_path / file, name)


def test_a_folder_with_safetensors(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "My-Model", "config.json", "model.safetensors")
    source = resolve(str(folder))
    assert (source.kind, source.path, source.served_name) == ("safetensors", folder, "my-model")


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ((), ModelNotFound),
        (("model.safetensors",), ModelNotFound),
        (("config.json",), ModelNotFound),
        (("config.json", "pytorch_model.bin"), UnsupportedModel),
    ],
)
def test_a_folder_without_a_model(names: tuple[str, ...], error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(error):
        resolve(str(folder_with(tmp_path / "model", *names)))


@pytest.mark.parametrize("name", ["/no/such/folder", "./no", "none.gguf", "a/b/c", "../escape", ""])
def test_missing_model(name: str) -> None:
    with pytest.raises(ModelNotFound):
        resolve(name)


def test_unsupported_file(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").touch()
    with pytest.raises(UnsupportedModel):
        resolve(str(tmp_path / "weights.bin"))


def test_a_hub_download_has_no_pickles_and_no_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "config.json", "model.safetensors")
    asked = {}

    def fetch(repository: str, allow_patterns: list[str], ignore_patterns: list[str]) -> str:
        asked[repository] = filter_repo_objects(
            ["config.json", "model.safetensors", "tokenizer.json", "pytorch_model.bin", "modeling_x.py", "m.pt",
             "onnx/model.safetensors", "consolidated.safetensors", "tokenizer.pkl"],
            allow_patterns=allow_patterns, ignore_patterns=ignore_patterns,
        )  # fmt: skip
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    source = resolve("Org/Some-Model")
    assert (source.kind, source.path, source.served_name) == ("safetensors", folder, "Org/Some-Model")
    assert list(asked["Org/Some-Model"]) == ["config.json", "model.safetensors", "tokenizer.json"]


def test_offline_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_args: object, **_options: object) -> None:
        raise LocalEntryNotFoundError("many\nlines")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    with pytest.raises(ModelNotFound, match="can't be reached") as caught:
        resolve("Org/Some-Model")
    assert "\n" not in str(caught.value)


def test_files_stay_inside_the_folder(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "model", "a.safetensors")
    folder_with(tmp_path, "secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    assert file_inside(folder, "a.safetensors") == folder / "a.safetensors"
    for name in ("link", "../secret", "/etc/passwd", "x/../../secret"):
        with pytest.raises(BadWeights):
            file_inside(folder, name)


def test_links_of_a_hub_cache_are_followed(tmp_path: Path) -> None:
    blob = folder_with(tmp_path / "models--a--b" / "blobs", "123") / "123"
    snapshot = folder_with(tmp_path / "models--a--b" / "snapshots" / "rev")
    (snapshot / "model.safetensors").symlink_to(blob)
    assert file_inside(snapshot, "model.safetensors").resolve() == blob


def test_no_torch_is_imported() -> None:
    modules = "inference_worker.model_files.model_source, inference_worker.model_files.gguf_metadata"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
