"""Files that llama.cpp's converter wrote are the models of `transformers` that they were made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.loading.model_loader import load_model
from inference_worker.engine.models.families import FAMILIES
from inference_worker.engine.models.transformers_backend import TransformersModel
from inference_worker.engine.weights.gguf_architectures import ARCHITECTURES, architecture_of
from inference_worker.engine.weights.gguf_file import GGUFFile
from inference_worker.errors import UnsupportedModel
from inference_worker.model_files.model_source import resolve
from tests.fakes.gguf_models import FILES, MODELS, gguf_model
from tests.fakes.gguf_writer import round_experts, write_gguf
from tests.fakes.packed_steps import packed_logits, random_sequences
from tests.fakes.tiny_models import save_tiny

WRITTEN: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma2": (
        "gemma2",
        {
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "sliding_window": 6,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 5.0,
        },
    ),
    "gpt-oss": (
        "gpt_oss",
        {
            "head_dim": 16,
            "intermediate_size": 64,
            "sliding_window": 6,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 5000.0,
                "factor": 4.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": False,
                "original_max_position_embeddings": 32,
            },
        },
    ),
}
"""Model type of `transformers` and configuration of what `tests/fakes/gguf_writer.py` writes, by architecture."""

NAMES = sorted(MODELS.keys() - {"wide"})


@pytest.mark.parametrize("name", NAMES)
def test_logits_and_greedy_tokens_are_those_of_the_original(name: str) -> None:
    path, theirs = FILES / f"{name}.gguf", gguf_model(name)
    ours = load_model(resolve(str(path)), torch.float32, torch.device("cpu"))
    assert isinstance(ours, Decoder if GGUFFile(path).config().model_type in FAMILIES else TransformersModel)
    sequences = random_sequences(97)
    with torch.inference_mode():
        for rows, ids in zip(packed_logits(ours, sequences, [9]), sequences, strict=True):
            expected = theirs(torch.tensor([ids])).logits[0]
            torch.testing.assert_close(rows, expected, atol=1e-4, rtol=1e-4)
            assert torch.equal(rows.argmax(dim=-1), expected.argmax(dim=-1))


@pytest.mark.parametrize("name", NAMES)
def test_tensors_are_those_of_the_original(name: str) -> None:
    file, expected = GGUFFile(FILES / f"{name}.gguf"), gguf_model(name)
    found = {tensor: file.read(tensor) for tensor in file.shapes()}
    state = expected.state_dict()
    if expected.config.tie_word_embeddings:
        del state["lm_head.weight"]
    assert found.keys() == state.keys()
    for key, tensor in state.items():
        torch.testing.assert_close(found[key], tensor, atol=1e-6, rtol=0, msg=key)


def test_every_architecture_has_a_file() -> None:
    found = {GGUFFile(FILES / f"{name}.gguf").header.architecture for name in NAMES}
    assert found | WRITTEN.keys() == ARCHITECTURES.keys()


def written(name: str, folder: Path) -> tuple[Path, PreTrainedModel]:
    model_type, changes = WRITTEN[name]
    theirs = save_tiny(folder / "theirs", model_type, **changes)
    if model_type == "gpt_oss":
        round_experts(theirs)
    write_gguf(folder / "tiny.gguf", theirs)
    return folder / "tiny.gguf", theirs


@pytest.mark.parametrize("name", WRITTEN)
def test_a_written_file_is_the_model_it_was_made_of(name: str, tmp_path: Path) -> None:
    path, theirs = written(name, tmp_path)
    ours = load_model(resolve(str(path)), torch.float32, torch.device("cpu"))
    assert isinstance(ours, TransformersModel)
    sequences = random_sequences(97)
    with torch.inference_mode():
        for rows, ids in zip(packed_logits(ours, sequences, [9]), sequences, strict=True):
            torch.testing.assert_close(rows, theirs(torch.tensor([ids])).logits[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", WRITTEN)
def test_tensors_of_a_written_file_are_those_of_the_model(name: str, tmp_path: Path) -> None:
    path, theirs = written(name, tmp_path)
    file, state = GGUFFile(path), theirs.state_dict()
    if theirs.config.tie_word_embeddings:
        del state["lm_head.weight"]
    assert dict(file.shapes()) == {key: tuple(tensor.shape) for key, tensor in state.items()}
    for key, tensor in state.items():
        torch.testing.assert_close(file.read(key), tensor, atol=1e-6, rtol=0, msg=key)


def test_the_model_of_a_configuration_has_the_files_tensors() -> None:
    file = GGUFFile(FILES / "qwen3moe.gguf")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(file.config())
    assert {name: tuple(each.shape) for name, each in model.state_dict().items()} == dict(file.shapes())


@pytest.mark.parametrize(
    ("name", "metadata", "message"),
    [
        ("llama", {"llama.expert_count": 8}, "experts"),
        ("", {}, "we read gemma"),
    ],
)
def test_what_is_missing_is_named(name: str, metadata: dict[str, int], message: str) -> None:
    with pytest.raises(UnsupportedModel, match=message):
        architecture_of(name, metadata)
