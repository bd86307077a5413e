"""Fields of chat completions that depend on one another."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.chat_completions import RESERVED_TEMPLATE_ARGUMENTS, ChatCompletionRequest

HI = {"role": "user", "content": "hi"}
REPLY = {"role": "assistant", "content": "Hello"}
TOOL = {"type": "function", "function": {"name": "f"}}


def parse(**fields: Any) -> ChatCompletionRequest:
    return ChatCompletionRequest.parse({"model": "m", "messages": [HI], **fields})


def test_the_new_name_of_the_token_limit_takes_precedence() -> None:
    assert parse().token_limit is None
    assert parse(max_tokens=5).token_limit == 5
    assert parse(max_tokens=5, max_completion_tokens=7).token_limit == 7


def test_log_probabilities_need_their_switch() -> None:
    assert parse(logprobs=True).top_logprob_count == 0
    assert parse(logprobs=True, top_logprobs=3).top_logprob_count == 3
    assert parse(logprobs=False).top_logprob_count is None
    with pytest.raises(InvalidRequest) as caught:
        parse(top_logprobs=3)
    assert caught.value.param == "top_logprobs"


def test_only_an_assistants_last_message_is_echoed_or_continued() -> None:
    assert parse(messages=[HI, REPLY], echo=True).echoed_text == "Hello"
    assert parse(messages=[HI, REPLY]).echoed_text == ""
    assert parse(echo=True).echoed_text == ""
    assert parse(messages=[HI, REPLY], continue_final_message=True).continue_final_message
    with pytest.raises(InvalidRequest):
        parse(continue_final_message=True)


def test_tool_choice_decides_whether_calls_are_possible() -> None:
    assert not parse().allows_tool_calls
    assert parse(tools=[TOOL]).allows_tool_calls
    assert not parse(tools=[TOOL], tool_choice="none").allows_tool_calls
    named = parse(tools=[TOOL], tool_choice=TOOL)
    assert named.forces_named_tool
    assert named.allows_tool_calls


@pytest.mark.parametrize("name", sorted(RESERVED_TEMPLATE_ARGUMENTS))
def test_arguments_of_the_template_function_itself_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(chat_template_kwargs={name: "x"})
    assert caught.value.param == "chat_template_kwargs"
