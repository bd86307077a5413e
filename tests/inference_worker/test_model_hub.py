"""`--model` with a Hugging Face id: the downloaded files, and the one-line error if the download fails.

In a process of its own, as `huggingface_hub` reads its settings when it is imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.model_hub import ModelHub
from tests.fakes.tiny_models import save_tiny

RESOLVE = """
import json, sys
from inference_worker.errors import WorkerError
from inference_worker.model_files.model_source import resolve
for model in sys.argv[1:]:
    try:
        source = resolve(model)
        print(json.dumps([source.kind, str(source.path), source.served_name]))
    except WorkerError as error:
        print(json.dumps([type(error).__name__, str(error)]))
"""
TINY, PICKLED, BARE = "org/Tiny-Llama", "org/pickled", "org/bare"
BESIDE = {"tokenizer.json": b"{}", "tokenizer_config.json": b"{ }", "chat_template.jinja": b"{{ messages }}"}
NOT_DOWNLOADED = [
    *("pytorch_model.bin", "model.pt", "model.pth", "tokenizer.pkl", "modeling_tiny.py", "onnx/model.onnx"),
    *("original/model.safetensors", "consolidated.safetensors", ".gitattributes", "README.md"),
]
PICKLE = b"\x80\x04."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("published")
    save_tiny(folder, "llama", num_hidden_layers=1)
    return {path.name: path.read_bytes() for path in folder.iterdir()} | BESIDE


@pytest.fixture
def hub(model: dict[str, bytes]) -> Iterator[ModelHub]:
    pickled = {"config.json": model["config.json"], "pytorch_model.bin": PICKLE}
    tiny = model | dict.fromkeys(NOT_DOWNLOADED, PICKLE)
    with ModelHub({TINY: tiny, PICKLED: pickled, BARE: {"model.pt": PICKLE}}).running() as hub:
        yield hub


def resolved(home: Path, endpoint: str, *models: str) -> list[list[str]]:
    """Return the output of `resolve` for each model, in another process with an empty or earlier cache."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"HF_HOME": str(home), "HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-c", RESOLVE, *models]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_model_is_downloaded_without_pickles_and_code_and_then_found_offline(
    hub: ModelHub, model: dict[str, bytes], tmp_path: Path
) -> None:
    ((kind, path, name), *refused) = resolved(tmp_path, hub.url, TINY, "org/none", PICKLED, BARE)
    assert (kind, name) == ("safetensors", TINY)
    assert {file.name: file.read_bytes() for file in Path(path).iterdir()} == model
    assert sorted(hub.fetched) == sorted([*(f"{TINY}/{file}" for file in model), f"{PICKLED}/config.json"])
    only_pickles = "has no .safetensors on Hugging Face, and other weights are not fetched"
    assert refused == [
        ["ModelNotFound", "there is no file, folder or Hugging Face repository org/none"],
        ["UnsupportedModel", f"{PICKLED} {only_pickles}"],
        ["UnsupportedModel", f"{BARE} {only_pickles}"],
    ]

    assert resolved(tmp_path, "http://127.0.0.1:1", TINY, "org/other") == [
        ["safetensors", path, TINY],
        ["ModelNotFound", "org/other is not on this disk and Hugging Face can't be reached"],
    ]
