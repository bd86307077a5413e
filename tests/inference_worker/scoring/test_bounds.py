"""The hold of a score job covers its tokens, whatever the format of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from router.messages import ScorePrompt
from router.usage_bound import max_usage
from tests.fakes.jobs import make_job
from tests.fakes.tiny_scorers import save_answer_model, save_pair_model, save_step_model, save_tagged_model
from tests.inference_worker.scoring.scores import load

CANDIDATES: list[Any] = ["x", "a b", ["Łódź"] * 5, "1\n\n2\n\n3", ["x"] * 20]


@pytest.mark.parametrize(
    "layout", ["bert", "roberta", "answer", "Qwen2ForProcessRewardModel", "Qwen2ForPrmModel", "ки"]
)
async def test_the_bound_is_never_below_the_tokens(tmp_path: Path, layout: str) -> None:
    tag = ""
    if layout in ("bert", "roberta"):
        save_pair_model(tmp_path, layout)
    elif layout == "answer":
        save_answer_model(tmp_path)
    elif layout == "ки":
        save_tagged_model(tmp_path)
        tag = layout
    else:
        save_step_model(tmp_path, layout)
    scores = load(tmp_path, tag)
    assert scores.text.bounds.per_byte
    for candidate in CANDIDATES:
        prompt = ScorePrompt(contexts=["q?"], candidates=[candidate])
        request = await scores.prepared(prompt)
        bound = max_usage(make_job(prompt=prompt), 10_000, scores.text.bounds)
        assert request.prompt_tokens <= bound.prompt_tokens, candidate
