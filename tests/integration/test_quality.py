"""Number formats and quantisation do not cost quality: perplexity on a part of the benchmark's text beside float32."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.quality import PROMPT_ROWS, VARIANTS, build, passage
from inference_worker.engine.engine import Engine
from inference_worker.engine.quantising.teacher_forcing import (
    WINDOWS,
    Prediction,
    predict_generated,
    predict_prompts,
    windows,
)

TOKENS = 25
"""Of each window: 192 predictions in all."""

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def texts(model_file: Path) -> list[list[int]]:
    return windows(passage(model_file), TOKENS)


def engine(model_file: Path, name: str) -> Engine:
    return build(model_file, next(variant for variant in VARIANTS if variant.name == name))


@pytest.fixture(scope="module")
def reference(model_file: Path, texts: list[list[int]]) -> Prediction:
    seen = predict_prompts(engine(model_file, "float32"), texts, PROMPT_ROWS)
    assert seen.losses.size == WINDOWS * (TOKENS - 1)
    assert 5 < seen.perplexity < 60
    return seen


@pytest.mark.parametrize(("name", "bound"), [("int8", 0.02), ("int4", 0.01)])
def test_quantised_weights_predict_as_well(
    model_file: Path, texts: list[list[int]], reference: Prediction, name: str, bound: float
) -> None:
    """As generated and as prompts. So short a text scatters: the bounds are wider than the benchmark's bars."""
    quantised = engine(model_file, name)
    for seen in (predict_generated(quantised, texts), predict_prompts(quantised, texts, PROMPT_ROWS)):
        assert seen.perplexity == pytest.approx(reference.perplexity, rel=bound)
        assert seen.agreement(reference) > 0.93
