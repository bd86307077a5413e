"""A reward model's engine computes each prefix once: shared conversations, and answers that grow by a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.scoring.answer_engine import AnswerScoringEngine
from inference_worker.engine_protocol import ScoreInput, ScoreRequest
from inference_worker.errors import ModelError
from router.messages import ScorePrompt
from tests.fakes.tiny_scorers import save_step_model
from tests.inference_worker.scoring.scores import Scores, load

QUESTION = "What is 2 + 2 * 3? Explain each step of your calculation, please."
STEPS = ["Multiply first: 2 * 3 is 6.", "Then add: 2 + 6 is 8.", "So the answer is 8."]
BLOCK = 4
AFTER_STEPS = 2
"""Tokens that the chat template puts after an answer's last step, in whose place a grown answer has its next step."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_step_model(tmp_path, "Qwen2ForPrmModel")
    return tmp_path


def scores_of(folder: Path, **settings: Any) -> Scores:
    return load(folder, block_size=BLOCK, **settings)


def engine_of(scores: Scores) -> AnswerScoringEngine:
    assert isinstance(scores.engine, AnswerScoringEngine)
    return scores.engine


def computed(scores: Scores) -> int:
    return scores.engine.load().step_tokens


def close(ours: list[list[float]], others: list[list[float]]) -> bool:
    return all(one == pytest.approx(other, abs=1e-5) for one, other in zip(ours, others, strict=True))


async def test_an_answer_that_grew_by_a_step_costs_that_step(folder: Path) -> None:
    scores, alone = scores_of(folder), []
    for count in (1, 2, 3):
        alone += await scores_of(folder)([QUESTION], [STEPS[:count]])
    grown, before, length = [], 0, 0
    for count in (1, 2, 3):
        grown += await scores([QUESTION], [STEPS[:count]])
        (whole,) = (await scores.prepared(ScorePrompt(contexts=[QUESTION], candidates=[STEPS[:count]]))).inputs
        new = computed(scores) - before
        assert new <= len(whole.ids) - length + AFTER_STEPS, "the new tokens, and those that end every answer"
        before, length = computed(scores), len(whole.ids)
    assert close(grown, alone)
    assert scores.engine.load().kv_blocks_used == 0


async def test_candidates_share_their_conversation(folder: Path) -> None:
    candidates: list[str | list[str]] = [[STEPS[0], f"{number} is right."] for number in range(8)]
    alone = [(await scores_of(folder)([QUESTION], [each]))[0] for each in candidates]
    scores = scores_of(folder)
    prompt = ScorePrompt(contexts=[QUESTION], candidates=candidates)
    inputs = (await scores.prepared(prompt)).inputs
    assert close(await scores([QUESTION], candidates), alone)
    lengths = [len(each.ids) for each in inputs]
    shared = next(
        place for place, ids in enumerate(zip(*(each.ids for each in inputs), strict=False)) if len(set(ids)) > 1
    )
    first = len(inputs[0].ids)
    assert computed(scores) <= first + sum(each - shared for each in lengths[1:])
    load_ = scores.engine.load()
    assert load_.prefix_cache_hits == load_.prefix_cache_queries - load_.step_tokens


async def test_other_salts_share_nothing(folder: Path) -> None:
    scores = scores_of(folder)
    request = await scores.prepared(ScorePrompt(contexts=[QUESTION], candidates=[STEPS]))
    for salt in ("a", "b"):
        scores.run(ScoreRequest(id=salt, inputs=request.inputs, salt=salt))
    assert computed(scores) == 2 * len(request.inputs[0].ids)


async def test_positions_that_were_not_read_before_are_computed(folder: Path) -> None:
    scores = scores_of(folder)
    ((_, known),) = scores.run(await scores.prepared(ScorePrompt(contexts=[QUESTION], candidates=[STEPS])))
    (whole,) = (await scores.prepared(ScorePrompt(contexts=[QUESTION], candidates=[STEPS]))).inputs
    every = ScoreInput(whole.ids, whole.second_from, list(range(len(whole.ids))))
    ((_, logits),) = scores.run(ScoreRequest(id="all", inputs=[every]))
    assert [logits[each] for each in whole.positions] == pytest.approx(known, abs=1e-5)
    assert computed(scores) == 2 * len(whole.ids), "the first block was cached without the logits that were wanted"


async def test_a_small_cache_evicts_scores_with_their_blocks(folder: Path) -> None:
    small = scores_of(folder, num_kv_blocks=40)
    candidates = [[f"{number} times {number}. " * 3, STEPS[1]] for number in range(12)]
    for _ in range(2):
        large = await scores_of(folder)([QUESTION], candidates)
        assert close(await small([QUESTION], candidates), large)
    engine = engine_of(small)
    assert sum(map(len, engine._bank._logits.values())) <= 40 * BLOCK
    assert set(engine._bank._logits) <= set(engine._bank._before)
    assert {block for each in engine._bank._following.values() for block in each} == set(engine._bank._before)


async def test_answers_that_part_within_a_block_do_not_change_one_another(folder: Path) -> None:
    words = ["six", "six and", "six and two", "seven", "six or", "six", "eight and"]
    candidates: list[str | list[str]] = [[STEPS[0], f"It is {each}."] for each in [*words, *reversed(words)]]
    alone = [(await scores_of(folder)([QUESTION], [each]))[0] for each in candidates]
    together = scores_of(folder, num_kv_blocks=64)
    for _ in range(2):
        assert close(await together([QUESTION], candidates), alone)
        assert close([(await together([QUESTION], [each]))[0] for each in candidates], alone)


async def test_requests_take_turns_and_cancelled_ones_free_their_blocks(folder: Path) -> None:
    scores = scores_of(folder, max_num_batched_tokens=32)
    large = await scores.prepared(ScorePrompt(contexts=[QUESTION], candidates=[[f"{n}."] for n in range(20)]), "large")
    small = await scores.prepared(ScorePrompt(contexts=["Why?"], candidates=[["x"]]), "small")
    scores.engine.add(large)
    scores.engine.step()
    scores.engine.add(small)
    done: list[str] = []
    while "small" not in done:
        done += [event.request for event in scores.engine.step()]
    assert len(done) < 20
    scores.engine.abort("large")
    assert not scores.engine.has_work()
    assert scores.engine.load().kv_blocks_used == 0


class _Poisoned(nn.Module):
    """A head that fails on states of more than two inputs, or gives no numbers."""

    def __init__(self, result: float | None) -> None:
        super().__init__()
        self._result = result

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        if self._result is None:
            raise RuntimeError("poison")
        return torch.full((len(states),), self._result)


@pytest.mark.parametrize(("result", "in_step"), [(None, True), (float("nan"), False)])
async def test_a_failed_input_fails_its_request_alone(folder: Path, result: float | None, in_step: bool) -> None:
    scores = scores_of(folder)
    engine, good = engine_of(scores), engine_of(scores)._head
    bad = await scores.prepared(ScorePrompt(contexts=["Bad?"], candidates=[["x"], ["y"]]), "bad")
    engine._head = _Poisoned(result)
    engine.add(bad)
    while engine.has_work():
        assert engine.step() == []
    assert {(each.request, each.in_step) for each in engine.failures()} == {("bad", in_step)}
    engine._head = good
    assert len(await scores([QUESTION], [STEPS])) == 1
    assert engine.load().kv_blocks_used == 0


async def test_an_input_beyond_the_context_fails(folder: Path) -> None:
    engine = engine_of(scores_of(folder))
    engine.add(ScoreRequest(id="long", inputs=[ScoreInput([1] * (engine.ready().max_model_len + 1), 0, [0])]))
    assert [each.request for each in engine.failures()] == ["long"]
    assert not engine.has_work()


async def test_quantised_weights_are_computed_by_the_compiled_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_step_model(tmp_path, "Qwen2ForPrmModel", intermediate_size=64, num_attention_heads=2, num_key_value_heads=1)
    (exact,) = await scores_of(tmp_path)([QUESTION], [STEPS])
    monkeypatch.setattr(Decoder, "forward", None)
    (quantised,) = await scores_of(tmp_path, quantization="int8")([QUESTION], [STEPS])
    assert quantised == pytest.approx(exact, abs=0.02)
    assert quantised != exact


async def test_other_quantisations_are_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match="quantization int4: this model has one of auto, int8, none"):
        scores_of(folder, quantization="int4")
