"""Request bodies of scores and rankings."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest, UnsupportedParameter
from gateway.openai.scores import MAX_CANDIDATES, RerankRequest, ScoreRequest
from router.messages import ScorePrompt

QUESTION = {"role": "user", "content": "2 + 2?"}
ANSWER = {"role": "assistant", "content": "4"}


def prompt(**fields: Any) -> ScorePrompt:
    return ScoreRequest.parse({"model": "m", **fields}).prompt


def test_the_contexts_and_candidates_of_each_form() -> None:
    assert prompt(text_1="q", text_2="a") == ScorePrompt(contexts=["q"], candidates=["a"])
    texts = ["a"] * MAX_CANDIDATES
    assert prompt(text_1=texts, text_2=texts) == ScorePrompt(contexts=[*texts], candidates=[*texts])
    steps: list[str | list[str]] = [["Add.", "4"]]
    answered = prompt(messages=[QUESTION, {"role": "assistant", "steps": steps[0]}])
    assert answered == ScorePrompt(contexts=[[QUESTION]], candidates=steps, param="messages")
    assert prompt(messages=[QUESTION, ANSWER, QUESTION], candidates=steps) == ScorePrompt(
        contexts=[[QUESTION, ANSWER, QUESTION]], candidates=steps, param="candidates"
    )
    reranked = RerankRequest.parse({"model": "m", "query": "q", "documents": ["a", {"text": "b"}]})
    assert reranked.prompt == ScorePrompt(contexts=["q"], candidates=["a", "b"], param="documents")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "text_1"),
        ({"text_1": "q"}, "text_2"),
        ({"text_2": "a"}, "text_1"),
        ({"text_1": "", "text_2": "a"}, "text_1"),
        ({"text_1": ["q", "r"], "text_2": "a"}, "text_1"),
        ({"text_1": ["q"] * 3, "text_2": ["a"] * 2}, "text_1"),
        ({"text_1": "q", "text_2": "a", "messages": [QUESTION, ANSWER]}, "messages"),
        ({"text_1": "q", "text_2": "a", "candidates": ["a"]}, "candidates"),
        ({"messages": [QUESTION]}, "messages"),
        ({"messages": [ANSWER]}, "messages"),
        ({"messages": [QUESTION, ANSWER], "candidates": ["a"]}, "candidates"),
        ({"messages": [QUESTION, {**ANSWER, "steps": ["a"]}]}, "messages[1]"),
        ({"messages": [QUESTION, {"role": "assistant", "steps": ["a"]}, QUESTION], "candidates": ["a"]}, "messages"),
        ({"text_1": "q", "text_2": "a", "truncate_prompt_tokens": -2}, "truncate_prompt_tokens"),
        ({"text_1": "q", "text_2": "a", "separator": ""}, "separator"),
    ],
)
def test_the_invalid_field_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        prompt(**fields)
    assert refused.value.param == param


def test_unsupported_fields_are_refused() -> None:
    with pytest.raises(UnsupportedParameter):
        RerankRequest.parse({"model": "m", "query": "q", "documents": ["a"], "rank_fields": ["title"]})
