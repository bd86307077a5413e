"""Tests of quantising a model as a whole: the report, and the engine that serves the result."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from inference_worker.engine.engine import Engine
from inference_worker.engine.quantising import quantising
from inference_worker.engine.quantising.folder_writer import MatrixError
from inference_worker.engine.quantising.quantising import REPORT, QualityReport, quantise, source_of
from inference_worker.engine.quantising.schemes import SchemeName
from inference_worker.engine.quantising.teacher_forcing import Prediction
from inference_worker.engine_protocol import GenerationRequest
from inference_worker.errors import BadWeights, UnsupportedModel
from inference_worker.settings import EngineSettings
from router.messages import SamplingParams
from tests.fakes.gguf_models import FILES
from tests.fakes.quantised_models import WIDE
from tests.fakes.tiny_models import save_tiny
from tests.fakes.tiny_scorers import save_byte_tokenizer
from tests.inference_worker.generation import generate


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save_tiny(tmp_path / "model", "llama", **WIDE, vocab_size=300, num_hidden_layers=2)
    save_byte_tokenizer(tmp_path / "model", chat=True)
    return tmp_path / "model"


def report(model: Path, to: SchemeName, text: str | None = None) -> tuple[QualityReport, list[str]]:
    stages: list[str] = []
    out = model.parent / to
    found = quantise(
        source_of(str(model)),
        to,
        out,
        text=text,
        calibration="Forty letters, each a token, of a text " * 10,
        progress=lambda *_: None,
        stage=stages.append,
    )
    return found, stages


@pytest.mark.parametrize(
    ("to", "scheme", "agreement"), [("int4", "int4", 0.6), ("int8", "int8", 0.9), ("fp8", "int8", 0.8)]
)
def test_the_result_is_served(model: Path, to: SchemeName, scheme: str, agreement: float) -> None:
    found, stages = report(model, to)
    assert stages == ["original", "quantise", "quantised"]
    assert found.tokens == 8 * 127
    assert found.quantised_bytes < found.bytes
    assert agreement < found.same_best_token <= 1
    assert found.quantised_perplexity == pytest.approx(found.perplexity, rel=0.2)
    assert list(found.errors_by_layer()) == ["0", "1"]
    stored = json.loads((model.parent / to / REPORT).read_text())
    assert stored["perplexity"] == found.perplexity
    assert len(stored["matrices"]) == 14
    engine = Engine.from_settings(EngineSettings(str(model.parent / to), quantization="auto", num_kv_blocks=64))
    assert engine.ready().quantization == scheme
    request = GenerationRequest(id="a", prompt_ids=[40, 41, 42], sampling=SamplingParams(seed=0, max_tokens=5))
    outcome = generate(engine, [request])
    assert len(outcome["a", 0].ids) == 5 or outcome["a", 0].reason == "stop"


def test_the_text_may_be_given(model: Path) -> None:
    found, _ = report(model, "int8", "A text of eighty letters, of which each is a token of this vocabulary of letters")
    assert found.tokens == 8 * 9
    with pytest.raises(UnsupportedModel, match="the text has 2 tokens: too few"):
        report(model, "fp8", "a")


def test_nothing_is_left_if_the_result_cannot_be_measured(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def prediction(folder: Path, texts: list[list[int]], quantization: str) -> Prediction:
        measured.append(quantization)
        if quantization == "auto":
            assert (folder / "config.json").is_file()
            raise BadWeights("not measurable")
        return Prediction(np.zeros(1), np.zeros(1, np.int64))

    monkeypatch.setattr(quantising, "_prediction", prediction)
    with pytest.raises(BadWeights, match="not measurable"):
        report(model, "int8")
    assert measured == ["none", "auto"]
    assert [path.name for path in model.parent.iterdir()] == ["model"]


def test_errors_by_layer_are_means_of_weights() -> None:
    matrices = [
        MatrixError("model.layers.10.mlp.up_proj.weight", 10, 0.1, 1.0),
        MatrixError("model.layers.10.mlp.down_proj.weight", 30, 0.3, 3.0),
        MatrixError("model.layers.2.mlp.up_proj.weight", 10, 0.1, 0.0),
    ]
    found = QualityReport("m", "int4", 1, 1.0, 1.0, 1.0, 1, 1, matrices).errors_by_layer()
    assert list(found) == ["2", "10"]
    assert found["10"] == (pytest.approx(0.25), pytest.approx(0.1))


def test_models_that_are_no_safetensors_are_refused() -> None:
    with pytest.raises(UnsupportedModel, match="only text-generating models in folders with safetensors"):
        source_of(str(FILES / "wide.Q4_K_M.gguf"))
