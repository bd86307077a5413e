"""Tests of the benchmark of draft models, around tiny models."""

from __future__ import annotations

import pytest

from benchmarks.draft_model import TOKENS, generate, looked_up, ranked_first, speeds, step_seconds
from tests.fakes.tiny_model import TinyModel, tiny_engine

PROMPTS = [[3, 4, 5], [7, 8, 9, 10], [11, 12]]


def test_a_model_ranks_its_own_greedy_answers_first() -> None:
    answers = generate(tiny_engine(), PROMPTS, temperature=0.0, sequences=2)
    assert [len(answer) for answer in answers] == [TOKENS] * 3
    assert ranked_first(tiny_engine(), PROMPTS, answers) == 1.0
    assert ranked_first(tiny_engine(TinyModel(seed=5)), PROMPTS, answers) < 0.5


def test_prompt_lookup_predicts_what_repeats_itself() -> None:
    assert list(looked_up([3, 4, 5, 6, 3, 4], [5, 6, 9, 4])) == [True, True, False, True]


@pytest.mark.parametrize("sequences", [1, 2])
def test_steps_and_answers_take_time(sequences: int) -> None:
    assert step_seconds(tiny_engine(), PROMPTS[0], sequences) > 0
    assert min(speeds([tiny_engine(), tiny_engine()], PROMPTS[:1], 0.0)) > 0
