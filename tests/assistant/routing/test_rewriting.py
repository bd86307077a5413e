"""Rewriting: only follow-ups, a model's rewrite is checked, and rules replace one that lost the entity."""

from __future__ import annotations

import pytest

from assistant.model_port import ModelPiece
from assistant.routing.rewriting import FollowUpRewriter, Rewrite
from assistant.turn import Turn
from router.messages import Usage
from tests.fakes.assistant import ScriptedModels

USAGE = Usage(prompt_tokens=200, completion_tokens=8)
KRAKOW = [Turn("user", "Jaka jest pogoda w Krakowie?"), Turn("assistant", "W Krakowie jest 20 stopni.")]
CURIE = [Turn("user", "Who was Marie Curie?"), Turn("assistant", "Marie Curie was a physicist.")]


async def rewrite(question: str, history: list[Turn], output: str) -> tuple[Rewrite, ScriptedModels]:
    models = ScriptedModels([[ModelPiece(text=output), ModelPiece(usage=USAGE)]])
    return await FollowUpRewriter("m").rewrite(question, history, models), models


async def test_a_question_that_stands_alone_calls_no_model() -> None:
    for question in ("Who was Isaac Newton?", "thanks!", "ile to 2 + 2?"):
        rewritten, models = await rewrite(question, CURIE, "nonsense")
        assert rewritten == Rewrite(question)
        assert not models.requests


async def test_a_faithful_rewrite_is_taken() -> None:
    rewritten, models = await rewrite("When did she die?", CURIE, " When did Marie Curie die?\n\nShe died in 1934.")
    assert (rewritten.question, rewritten.by) == ("When did Marie Curie die?", "model")
    content = models.requests[0].messages[-1]["content"]
    assert content.splitlines() == [
        "User: Who was Marie Curie?",
        "Assistant: Marie Curie was a physicist.",
        "Question: When did she die?",
    ]


async def test_an_inflected_entity_is_right() -> None:
    rewritten, _ = await rewrite("A w niedzielę?", KRAKOW, "Jaka będzie w niedzielę pogoda w mieście Kraków?")
    assert rewritten == Rewrite("Jaka będzie w niedzielę pogoda w mieście Kraków?", "model", USAGE)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "When did she die?",
        "When did Pierre die?",
        "Marie Curie died in 1934 in France, and " + "she was famous " * 20,
        "Marie Curie.",
        "Kiedy zmarła Marie Curie?",
    ],
)
async def test_rules_replace_an_unfaithful_rewrite(output: str) -> None:
    rewritten, _ = await rewrite("When did she die and where?", CURIE, output)
    assert rewritten == Rewrite("When did Marie Curie die and where?", "rules", USAGE)


async def test_rules_replace_a_failed_model() -> None:
    rewritten = await FollowUpRewriter("m").rewrite("A w niedzielę?", KRAKOW, ScriptedModels())
    assert rewritten == Rewrite("Jaka jest pogoda w Krakowie w niedzielę?", "rules")


async def test_without_a_model_there_are_rules() -> None:
    models = ScriptedModels()
    rewritten = await FollowUpRewriter().rewrite("a jutro?", KRAKOW, models)
    assert rewritten == Rewrite("Jaka jest pogoda w Krakowie jutro?", "rules")
    assert not models.requests


async def test_an_expression_must_be_whole() -> None:
    history = [Turn("user", "differentiate x^2 * sin(x)"), Turn("assistant", "2x sin(x) + x^2 cos(x)")]
    wrong, _ = await rewrite("now integrate it", history, "integrate x^2")
    assert wrong == Rewrite("integrate (2x sin(x) + x^2 cos(x))", "rules", USAGE)
    right, _ = await rewrite("now integrate it", history, "Integrate 2x sin(x)+x^2 cos(x)")
    assert right.by == "model"


async def test_the_call_ends_with_the_first_line() -> None:
    models = ScriptedModels([[ModelPiece(text=each) for each in ("When did Marie Curie die?", "\n", "In", " 1934")]])
    rewritten = await FollowUpRewriter("m").rewrite("When did she die?", CURIE, models)
    assert rewritten.by == "model"
    assert models.closed_after == [2]
