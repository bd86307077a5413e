"""Limits of score requests are checked while their inputs are tokenised, so that a refusal costs little."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inference_worker.engine_protocol import ScoreInput
from inference_worker.errors import PromptRejected
from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.worker.scoring import answer_inputs, pair_inputs, processor
from inference_worker.worker.scoring.pair_inputs import BATCH, PairInputs
from router.messages import FailureCode, ScorePrompt
from tests.fakes.tiny_scorers import save_answer_model, save_pair_model, save_step_model, save_tagged_model
from tests.inference_worker.scoring.scores import Scores, load

CANDIDATES: list[Any] = ["a"] * 2048
LAYOUTS: dict[str, Callable[[Path], object]] = {
    "answer": save_answer_model,
    "steps": lambda folder: save_step_model(folder, "Qwen2ForProcessRewardModel"),
    "lines": lambda folder: save_step_model(folder, "Qwen2ForPrmModel"),
    "tags": save_tagged_model,
}


@pytest.fixture(params=LAYOUTS)
def scores(request: pytest.FixtureRequest, tmp_path: Path) -> Scores:
    LAYOUTS[request.param](tmp_path)
    return load(tmp_path, "ки" if request.param == "tags" else "")


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[ScoreInput]:
    """The inputs that were tokenised."""
    made: list[ScoreInput] = []

    def count(*fields: Any) -> ScoreInput:
        made.append(ScoreInput(*fields))
        return made[-1]

    monkeypatch.setattr(answer_inputs, "ScoreInput", count)
    return made


async def rejected(scores: Scores, context: Any) -> PromptRejected:
    with pytest.raises(PromptRejected) as caught:
        await scores.prepared(ScorePrompt(contexts=[context], candidates=CANDIDATES))
    return caught.value


async def test_tokenising_ends_at_the_first_input_that_is_too_long(scores: Scores, built: list[ScoreInput]) -> None:
    error = await rejected(scores, [{"role": "user", "content": "x" * 600}])
    assert error.code is FailureCode.CONTEXT_LENGTH_EXCEEDED
    assert len(built) == 1


async def test_tokenising_ends_when_the_request_is_too_large(scores: Scores, built: list[ScoreInput]) -> None:
    error = await rejected(scores, "x" * 400)
    assert "at most 300000 tokens" in error.message
    assert len(built) <= 300_000 // 400 + 1


async def test_a_job_names_the_most_tokens_that_are_read_for_it(scores: Scores, built: list[ScoreInput]) -> None:
    prompt = ScorePrompt(contexts=["x" * 40], candidates=["a", "b"])
    tokens = sum(len(each.ids) for each in (await scores.prepared(prompt)).inputs)
    built.clear()
    await scores.prepared(msgspec.structs.replace(prompt, max_tokens=tokens))
    for most, tokenised in ((tokens - 1, 2), (0, 0)):
        built.clear()
        with pytest.raises(PromptRejected, match=f"at most {most} tokens") as caught:
            await scores.prepared(msgspec.structs.replace(prompt, max_tokens=most))
        assert caught.value.code is FailureCode.TOO_MANY_TOKENS
        assert len(built) == tokenised


async def test_a_conversation_that_cannot_fit_is_not_tokenised(scores: Scores, built: list[ScoreInput]) -> None:
    error = await rejected(scores, [{"role": "user", "content": "x" * 400 * 520}])
    assert error.code is FailureCode.CONTEXT_LENGTH_EXCEEDED
    assert built == []


async def test_a_question_of_many_answers_is_tokenised_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LAYOUTS["lines"](tmp_path)
    scores = load(tmp_path)
    encoded: list[str] = []
    encode = Tokenizer.encode_inside

    def note(self: Tokenizer, text: str) -> list[int]:
        encoded.append(text)
        return encode(self, text)

    monkeypatch.setattr(Tokenizer, "encode_inside", note)
    await scores.prepared(ScorePrompt(contexts=["q?"], candidates=["a"] * 5))
    assert encoded.count("q?\n") == 1


@pytest.fixture
def tokenised(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of pairs that were tokenised."""
    texts: list[str] = []
    encode = PairInputs._encoded

    def note(self: PairInputs, added: list[str], room: int | None) -> list[list[int]]:
        texts.extend(added)
        return encode(self, added, room)

    monkeypatch.setattr(PairInputs, "_encoded", note)
    monkeypatch.setattr(processor, "MAX_REQUEST_TOKENS", 5000)
    return texts


@pytest.mark.parametrize("limit", [None, 64, -1])
async def test_pairs_that_cannot_fit_are_not_tokenised(tmp_path: Path, tokenised: list[str], limit: int | None) -> None:
    save_pair_model(tmp_path)
    prompt = ScorePrompt(contexts=["q"], candidates=["a" * 400 * 30] * 200)
    with pytest.raises(PromptRejected, match="at most 5000 tokens"):
        await load(tmp_path).prepared(prompt, truncate_prompt_tokens=limit)
    assert tokenised == []


async def test_tokenising_of_pairs_ends_when_the_request_is_too_large(tmp_path: Path, tokenised: list[str]) -> None:
    save_pair_model(tmp_path)
    prompt = ScorePrompt(contexts=["q"], candidates=["a " * 200] * 2000)
    with pytest.raises(PromptRejected, match="at most 5000 tokens"):
        await load(tmp_path).prepared(prompt, truncate_prompt_tokens=100)
    assert len(tokenised) == 1 + BATCH


async def test_a_long_query_of_many_documents_is_cut_once(
    tmp_path: Path, tokenised: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_pair_model(tmp_path)
    fitted: list[tuple[int, int]] = []
    fit = pair_inputs._fitted

    def note(query: list[int], document: list[int], room: int) -> tuple[list[int], list[int]]:
        fitted.append((len(query), len(document)))
        return fit(query, document, room)

    monkeypatch.setattr(pair_inputs, "_fitted", note)
    prompt = ScorePrompt(contexts=["q" * 100 + " q" * 5000], candidates=["b" * 5, "b" * 30, "b " * 900])
    request = await load(tmp_path).prepared(prompt, truncate_prompt_tokens=43)
    assert tokenised.count(prompt.contexts[0]) == 1  # type: ignore[arg-type]
    assert fitted == [(40, 5), (40, 30), (40, 40)]
    assert [(len(each.ids), each.second_from) for each in request.inputs] == [(43, 37), (43, 22), (43, 22)]
