"""Hostile model folders are rejected in one line, and no code of theirs runs
(docs/design/hostile-input.md#H117)."""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from inference_worker.engine.loading.model_loader import load_model
from inference_worker.errors import BadWeights, ModelError, PromptRejected, UnsupportedModel
from inference_worker.model_files.model_source import resolve
from inference_worker.tokenizer.tokenizer_files import read_text_files
from inference_worker.worker.text.chat_template import ChatTemplate
from inference_worker.worker.text.processor import TextProcessor
from router.messages import ChatPrompt
from tests.fakes.tiny_models import save_tiny

TOKENIZER: dict[str, Any] = {
    "version": "1.0",
    "added_tokens": [],
    "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "model": {"type": "BPE", "vocab": {chr(33 + index): index for index in range(90)}, "merges": []},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    save_tiny(folder, "llama")
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    return folder


def read(folder: Path) -> None:
    source = resolve(str(folder))
    TextProcessor.of(read_text_files(source.path)).close()
    load_model(source, torch.float32, torch.device("cpu"))


def refused(folder: Path, kind: type[ModelError], seconds: float = 5.0) -> str:
    began = time.process_time()
    with pytest.raises(kind) as caught:
        read(folder)
    assert time.process_time() - began < seconds
    assert "\n" not in str(caught.value)
    return str(caught.value)


def change(folder: Path, file: str, **fields: Any) -> None:
    path = folder / file
    path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | fields))


def header(described: dict[str, Any]) -> bytes:
    encoded = json.dumps(described).encode()
    return struct.pack("<Q", len(encoded)) + encoded


def test_the_unmodified_folder_is_served(folder: Path) -> None:
    read(folder)


@pytest.mark.parametrize("model_type", ["evil", "gpt2"])
def test_code_of_a_repository_is_never_run(folder: Path, model_type: str, tmp_path: Path) -> None:
    auto_map = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    change(folder, "config.json", model_type=model_type, auto_map=auto_map)
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Config: ...\nclass Model: ...\n")
    refused(folder, ModelError)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        struct.pack("<Q", 10**15) + b"{}",
        header({"x": {"dtype": "F32", "shape": [10**15], "data_offsets": [0, 4 * 10**15]}}),
        header({"x": {"dtype": "F32", "shape": [2**33, 2**33], "data_offsets": [0, 4]}}) + b"0000",
        header({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}) + b"0000",
    ],
    ids=["empty", "long header", "1e15 elements", "overflow", "another model's"],
)
def test_weights_with_a_false_header(folder: Path, content: bytes) -> None:
    (folder / "model.safetensors").write_bytes(content)
    refused(folder, BadWeights)


@pytest.mark.parametrize(
    "file", ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]
)
def test_links_out_of_the_folder(folder: Path, file: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes((folder / file).read_bytes() if (folder / file).exists() else b"{}")
    (folder / file).unlink(missing_ok=True)
    (folder / file).symlink_to(outside)
    assert "leads out of the model's folder" in refused(folder, BadWeights)


def test_a_pipe_is_not_read(folder: Path) -> None:
    os.mkfifo(folder / "chat_template.jinja")
    assert "is no file" in refused(folder, BadWeights)


def added(id_: int) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"added_tokens": [{"id": id_, "content": "<x>", "special": True, **flags}]}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: change(folder, "tokenizer.json", **added(10**9)),
        lambda folder: change(folder, "tokenizer.json", **added(10**12)),
        lambda folder: change(folder, "tokenizer_config.json", bos_token={"x": 1}),
        lambda folder: change(folder, "config.json", num_hidden_layers=10**9),
        lambda folder: change(folder, "tokenizer_config.json", chat_template="{% for %}"),
    ],
    ids=["huge id", "huger id", "named token", "layers", "template"],
)
def test_impossible_numbers_and_shapes(folder: Path, spoil: Callable[[Path], None]) -> None:
    spoil(folder)
    refused(folder, UnsupportedModel)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", ["{", "[]", "[" * 100_000])
def test_invalid_json_files(folder: Path, file: str, content: str) -> None:
    (folder / file).write_text(content)
    refused(folder, BadWeights)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ 'a' * 10 ** 10 }}",
        "{{ ['a'] * 10 ** 9 }}",
        "{{ '%1000000000d' % 1 }}",
        "{% set box = namespace(a='ab' * 100) %}{% for i in range(40) %}{% set box.a = box.a + box.a %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{{ loop.index * 2 }}{% endfor %}{% endfor %}",
        "{% include '/etc/passwd' %}",
    ],
)
def test_templates_that_would_exhaust_the_machine(source: str) -> None:
    began = time.process_time()
    template = ChatTemplate(source, {})
    with pytest.raises(PromptRejected):
        template.render(ChatPrompt(messages=[{"role": "user", "content": "hi"}]))
    assert time.process_time() - began < 5
