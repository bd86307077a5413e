"""Which texts of prompts and answers are checked."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.moderation.checked_texts import AnswerText, prompt_texts
from router.messages import (
    ChatPrompt,
    Delta,
    EmbeddingPrompt,
    ImagePrompt,
    OwnToolCall,
    Prompt,
    Step,
    TextPrompt,
    TokenPrompt,
    ToolCallDelta,
)
from tests.fakes.scripted_worker import ROUTE, RUNNING

CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": "b"}'}}


@pytest.mark.parametrize(
    ("prompt", "texts"),
    [
        (
            ChatPrompt(
                messages=[
                    {"role": "system", "content": "s"},
                    {"role": "user", "content": [{"type": "text", "text": "u"}, {"type": "image"}]},
                    {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "r"},
                    {"role": "tool", "content": "t", "tool_call_id": "1"},
                    {"role": "user", "content": " \n"},
                ]
            ),
            ["s", "u", "r", "f\na\nb", "t"],
        ),
        (ChatPrompt(messages=[], template_kwargs={"persona": "p", "thinking": True}), ["p"]),
        (
            ChatPrompt(messages=[], own_tool_call=OwnToolCall(name="search", arguments={"q": "a", "n": [1, "b"]})),
            ["a", "b"],
        ),
        (TextPrompt("a", "suffix"), ["a", "suffix"]),
        (TextPrompt("a"), ["a"]),
        (ImagePrompt(prompt="a cat", size="512x512"), ["a cat"]),
        (EmbeddingPrompt(inputs=["a"]), []),
    ],
)
def test_texts_of_prompts(prompt: Prompt, texts: list[str]) -> None:
    assert prompt_texts(prompt) == texts


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (r'{"pi\u0070e": ["bo\u006db", {"c": 4}]}', "f\npipe\nbomb\nc"),
        ('{"a": "b", "a": "c"}', "f\na\nb\na\nc"),  # a parser keeps one of them
        ('"b"', "f\nb"),
        ('{"a": ', 'f\n{"a": '),
        ("[" * 100_000, "f\n" + "[" * 100_000),
    ],
)
def test_arguments_of_calls_are_read_as_templates_parse_them(arguments: str, text: str) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    assert prompt_texts(ChatPrompt(messages=[{"role": "assistant", "tool_calls": [call]}])) == [text]


def test_token_ids_are_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        prompt_texts(TokenPrompt([1, 2]))
    assert caught.value.param == "prompt"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"text": "a"}, "a"),
        ({"reasoning": "r", "text": "a"}, "r\na"),
        ({"tool_calls": [ToolCallDelta(index=0, id="1", name="f"), ToolCallDelta(index=0, arguments="{}")]}, "f{}"),
        ({}, ""),
    ],
)
def test_texts_of_deltas(fields: dict[str, Any], text: str) -> None:
    assert AnswerText().add(Delta(job_id="j", attempt_id="a", start=0, token_ids=[1], **fields)) == text


def test_arguments_of_several_calls_are_decoded_each_by_itself() -> None:
    text = AnswerText()
    pieces = [(0, r'{"a": "bo\u00'), (1, r'{"b": "\u0070ip'), (0, '6db"}'), (1, 'e"}')]
    calls = [ToolCallDelta(index=index, arguments=piece) for index, piece in pieces]
    deltas = [Delta(job_id="j", attempt_id="a", start=0, token_ids=[1], tool_calls=[call]) for call in calls]
    assert list(map(text.add, deltas)) == ['{"a": "bo', '{"b": "pip', 'mb"}', 'e"}']


@pytest.mark.parametrize(("step", "text"), [(ROUTE, "weather\nŁódź\n"), (RUNNING, "\n")])
def test_texts_of_steps(step: Step, text: str) -> None:
    assert AnswerText().add(Delta(job_id="j", attempt_id="a", start=0, token_ids=[], step=step)) == text
