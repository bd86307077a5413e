"""Tests of draft models as the settings name them, from their files to drafts that are accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from inference_worker.engine.engine import Engine
from inference_worker.engine.scheduling.memory_pool import MemoryPool
from inference_worker.errors import ModelError, UnsupportedModel
from inference_worker.settings import EngineSettings
from tests.fakes.tiny_models import save_tiny
from tests.inference_worker.generation import generate, ids, prompts, request

VOCABULARY = 97
SIZES = {"head_dim": 16, "intermediate_size": 64, "max_position_embeddings": 256}
REQUESTS = [
    request(f"r{i}", prompt, max_tokens=30, seed=i, temperature=i * 0.6)
    for i, prompt in enumerate(prompts(2, seed=3, vocab_size=VOCABULARY))
]


def save(folder: Path, layers: int = 8, unit: str = "t", **changes: Any) -> Path:
    """Save the first `layers` of a model whose layers after the first do nothing, and a vocabulary of units."""
    model = save_tiny(folder, "llama", **{**SIZES, "num_hidden_layers": 8, **changes})
    model.model.layers = model.model.layers[:layers]
    model.config.num_hidden_layers = layers
    with torch.no_grad():
        for layer in model.model.layers[1:]:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    model.save_pretrained(folder)
    tokens = {f"{unit}{id_}": id_ for id_ in range(VOCABULARY)}
    definition = {"model": {"type": "BPE", "vocab": tokens, "merges": []}, "decoder": {"type": "ByteLevel"}}
    (folder / "tokenizer.json").write_text(json.dumps(definition))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("model"))


def engine(folder: Path, **settings: Any) -> Engine:
    values = {"dtype": "float32", "num_kv_blocks": 64, **settings}
    return Engine.from_settings(EngineSettings(model=str(folder), **values))


@pytest.mark.parametrize("attention", ["auto", "reference"])
@pytest.mark.parametrize("own_layers", [True, False])
def test_drafts_are_accepted(folder: Path, tmp_path: Path, attention: str, own_layers: bool) -> None:
    """Of the model's first layer, or of a model that is the same but for layers that do nothing."""
    draft = "1" if own_layers else str(save(tmp_path, layers=2))
    made = engine(folder, attention=attention, draft_model=draft)
    expected = generate(engine(folder, attention=attention), REQUESTS)
    assert ids(generate(made, REQUESTS)) == ids(expected)
    load = made.load()
    assert load.accepted_tokens == load.draft_tokens > 20


def test_the_cache_memory_is_divided(folder: Path) -> None:
    plain, drafting = (
        engine(folder, draft_model=draft, num_kv_blocks=None, kv_cache_memory=2**20).ready() for draft in (None, "4")
    )
    assert drafting.kv_blocks == plain.kv_blocks * 2 // 3


@pytest.mark.parametrize("count", ["0", "8", "9"])
def test_a_draft_model_has_fewer_layers(folder: Path, count: str) -> None:
    with pytest.raises(UnsupportedModel, match="can't be its draft model"):
        engine(folder, draft_model=count)


@pytest.mark.parametrize("changes", [{"unit": "u"}, {"vocab_size": VOCABULARY + 1}])
def test_another_vocabulary_is_refused(folder: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    save(tmp_path, layers=2, **changes)
    with pytest.raises(UnsupportedModel, match="another vocabulary"):
        engine(folder, draft_model=str(tmp_path))


def test_models_of_other_libraries_get_no_draft_model(folder: Path, tmp_path: Path) -> None:
    save_tiny(tmp_path, "gpt_neox")
    (tmp_path / "tokenizer.json").write_text((folder / "tokenizer.json").read_text())
    with pytest.raises(UnsupportedModel, match="decoders of the engine's own definition"):
        engine(tmp_path, draft_model=str(folder))


def test_a_verifier_excludes_a_draft_model(folder: Path) -> None:
    with pytest.raises(ModelError, match="verifier"):
        Engine.from_settings(EngineSettings(model=str(folder), draft_model="1"), MemoryPool(2**24, 2))
