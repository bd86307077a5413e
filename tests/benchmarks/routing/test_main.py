"""`python -m benchmarks.routing`, on small files; the model's ways with the real model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from assistant.model_port import ModelCallFailed, ModelRequest
from assistant.routing.grammar_router import GrammarRouter
from benchmarks.results import read
from benchmarks.routing.__main__ import main
from benchmarks.routing.engine_models import EngineModels
from benchmarks.routing.label_tools import LABEL_TOOLS
from inference_worker.settings import EngineSettings
from router.messages import Grammar, GrammarKind

LINES = """{"lang": "en", "text": "Draw a beaver", "tool": "image"}
{"lang": "en", "text": "and on Monday?", "tool": "weather", "history": [{"role": "user", "content": "Rain in Bonn?"}]}
{"lang": "pl", "text": "oblicz 3 * 14", "tool": "math"}
"""


def test_the_classifier_is_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "some.jsonl").write_text(LINES)
    main([str(tmp_path / "some.jsonl"), "--out", str(tmp_path), "--wrong"])
    english, polish = read(tmp_path / "routing.json").rows
    assert (english["way"], english["lang"], english["prompts"], english["accuracy"]) == ("classifier", "en", 2, 1)
    assert (polish["recall_math"], polish["recall_image"]) == (1, None)
    assert "chose_weather" in capsys.readouterr().out


def test_rewriting_is_scored(tmp_path: Path) -> None:
    main(["--rewriting", "--rules-only", "--out", str(tmp_path)])
    rows = read(tmp_path / "routing-rewriting.json").rows
    assert [(row["lang"], row["rewriter"], row["rewritten_by_model"]) for row in rows] == [
        ("en", "rules", 0),
        ("pl", "rules", 0),
    ]


def test_a_file_is_needed() -> None:
    with pytest.raises(SystemExit):
        main([])


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
