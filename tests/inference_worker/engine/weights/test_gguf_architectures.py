"""Files that llama.cpp's converter wrote are the models of `transformers` that they were made of."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.loading.model_loader import load_model
from inference_worker.engine.models.families import FAMILIES
from inference_worker.engine.models.transformers_backend import TransformersModel
from inference_worker.engine.weights.gguf_architectures import ARCHITECTURES, architecture_of
from inference_worker.engine.weights.gguf_file import GGUFFile
from inference_worker.errors import UnsupportedModel
from inference_worker.model_files.model_source import resolve
from tests.fakes.gguf_models import FILES, MODELS, gguf_model
from tests.fakes.packed_steps import packed_logits, random_sequences

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
    assert found == ARCHITECTURES.keys()


def test_the_model_of_a_configuration_has_the_files_tensors() -> None:
    file = GGUFFile(FILES / "qwen3moe.gguf")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(file.config())
    assert {name: tuple(each.shape) for name, each in model.state_dict().items()} == dict(file.shapes())


@pytest.mark.parametrize(
    ("name", "metadata", "message"),
    [
        ("gemma2", {}, "softcap"),
        ("gpt-oss", {}, "s_aux"),
        ("llama", {"llama.expert_count": 8}, "experts"),
        ("", {}, "we read gemma"),
    ],
)
def test_what_is_missing_is_named(name: str, metadata: dict[str, int], message: str) -> None:
    with pytest.raises(UnsupportedModel, match=message):
        architecture_of(name, metadata)
