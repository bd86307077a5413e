"""`python -m benchmarks.routing`, on small files; the model's ways with the real model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import numpy as np
import pytest

from assistant.model_port import ModelCallFailed, ModelPiece, ModelRequest
from assistant.routing.function_router import FunctionRouter
from assistant.routing.grammar_router import GrammarRouter
from assistant.routing.labelled_prompts import LabelledPrompt
from benchmarks.results import read
from benchmarks.routing.__main__ import main
from benchmarks.routing.engine_models import EngineModels
from benchmarks.routing.first_token import added_seconds, chosen_prompts
from benchmarks.routing.label_tools import LABEL_TOOLS
from benchmarks.routing.ways import Way
from inference_worker.settings import EngineSettings
from router.messages import Grammar, GrammarKind
from tests.fakes.assistant import ScriptedModels

LINES = """{"lang": "en", "text": "Draw a beaver", "tool": "image"}
{"lang": "en", "text": "and on Monday?", "tool": "weather", "history": [{"role": "user", "content": "Rain in Bonn?"}]}
{"lang": "pl", "text": "oblicz 3 * 14", "tool": "math"}
"""


def test_the_classifier_and_rewriting_are_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "some.jsonl").write_text(LINES)
    main([str(tmp_path / "some.jsonl"), "--out", str(tmp_path), "--wrong", "--no-model", "--way", "classifier"])
    english, polish = read(tmp_path / "routing.json").rows
    assert (english["way"], english["lang"], english["prompts"], english["accuracy"]) == ("classifier", "en", 2, 1)
    assert (polish["recall_math"], polish["recall_image"]) == (1, None)
    assert "chose_weather" in capsys.readouterr().out
    rows = read(tmp_path / "routing-rewriting.json").rows
    assert [(row["lang"], row["rewriter"], row["rewritten_by_model"]) for row in rows] == [
        ("en", "rules", 0),
        ("pl", "rules", 0),
    ]


class SlowModels(ScriptedModels):
    """Writes its first piece after 20 ms."""

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelPiece]:
        self.requests.append(request)
        await asyncio.sleep(0.02)
        yield ModelPiece(text="none" if request.grammar else "Well")


def prompts(count: int) -> list[LabelledPrompt]:
    return [LabelledPrompt(lang="en", text=f"hello {number}", tool="none") for number in range(count)]


async def test_a_choice_adds_its_own_call_to_the_first_token() -> None:
    models = SlowModels()
    added = await added_seconds(Way("grammar", "m", GrammarRouter("m"), models), prompts(3), "m", models)
    assert np.median(added) > 0.005
    assert [bool(request.grammar) for request in models.requests] == [0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0]


async def test_an_answer_that_goes_on_is_not_asked_for_again() -> None:
    models = SlowModels()
    await added_seconds(Way("function", "m", FunctionRouter("m", answers=True), models), prompts(1), "m", models)
    assert [bool(request.tools) for request in models.requests] == [False, True, False]


def test_prompts_that_need_no_tool_are_measured_first() -> None:
    mixed = [LabelledPrompt(lang="en", text=str(number), tool="math") for number in range(9)] + prompts(2)
    chosen = chosen_prompts(mixed, "en", 4)
    assert [each.tool for each in chosen] == ["none", "none", "math", "math"]
    assert chosen_prompts(mixed, "pl") == []


@pytest.mark.model
def test_the_real_model_is_held_to_the_grammar(model_file: Path) -> None:
    models = EngineModels.load(EngineSettings(model=str(model_file), max_num_seqs=1, max_model_len=2048))

    async def calls() -> None:
        router = GrammarRouter("m")
        first = await router.choose("Draw a beaver", [], LABEL_TOOLS, models)
        second = await router.choose("oblicz 3 * 14", [], LABEL_TOOLS, models)
        assert first.usage is not None
        assert second.usage is not None
        assert second.usage.cached_tokens > 0.8 * second.usage.prompt_tokens
        assert second.usage.completion_tokens <= 8
        answer = models.generate(ModelRequest("m", [{"role": "user", "content": "hello"}], max_tokens=50))
        assert (await anext(answer)).text
        await answer.aclose()
        wrong = ModelRequest(
            "m", [{"role": "user", "content": "a"}], grammar=Grammar(kind=GrammarKind.LARK, source="(")
        )
        with pytest.raises(ModelCallFailed):
            await anext(models.generate(wrong))

    try:
        asyncio.run(calls())
    finally:
        models.close()
