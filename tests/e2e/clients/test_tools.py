"""Tools by the official Python SDK, with the real model: parsed, streamed, and with their results sent back."""

from __future__ import annotations

from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel

from tests.e2e.launcher_process import MODEL

pytestmark = [pytest.mark.e2e, pytest.mark.model, pytest.mark.store]


class Weather(BaseModel):
    """Say the weather of a city."""

    city: Literal["Paris", "London"]
    unit: Literal["celsius", "fahrenheit"]


class Answer(BaseModel):
    good: bool


TOOLS: Any = [openai.pydantic_function_tool(Weather)]
ASK: Any = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "How is the weather in Paris?"}],
    "temperature": 0,
    "max_tokens": 300,
}
ONE_CALL: Any = {"parallel_tool_calls": False}
NAMED: Any = {"type": "function", "function": {"name": "Weather"}}


def test_a_tool_call_is_parsed_and_its_result_is_sent_back(client: openai.OpenAI) -> None:
    forced = {"tools": TOOLS, "tool_choice": "required", **ONE_CALL}
    first = client.chat.completions.parse(**ASK, **forced).choices[0]
    assert (first.finish_reason, first.message.content) == ("tool_calls", None)
    assert first.message.tool_calls is not None
    call = first.message.tool_calls[0]
    assert isinstance(call.function.parsed_arguments, Weather)
    result: Any = {"role": "tool", "tool_call_id": call.id, "content": "sunny, 21 degrees"}
    said: Any = first.message.to_dict()
    said["tool_calls"] = [{k: v for k, v in each.items() if k != "index"} for each in said["tool_calls"]]
    again = client.chat.completions.create(
        **ASK | {"messages": [*ASK["messages"], said, result]}, tools=TOOLS, tool_choice="none"
    )
    assert again.choices[0].message.content
    assert again.choices[0].message.tool_calls is None


def test_a_forced_tool_call_is_streamed(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(**ASK, tools=TOOLS, tool_choice=NAMED) as stream:
        events = list(stream)
        final = stream.get_final_completion().choices[0]
    deltas = [event for event in events if event.type == "tool_calls.function.arguments.delta"]
    assert len(deltas) > 1
    assert final.finish_reason == "stop"
    assert final.message.content is None
    assert final.message.tool_calls is not None
    assert "".join(event.arguments_delta for event in deltas) == final.message.tool_calls[0].function.arguments
    assert isinstance(final.message.tool_calls[0].function.parsed_arguments, Weather)


def test_with_a_schema_the_model_answers_or_calls_a_tool(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(**ASK, **ONE_CALL, tools=TOOLS, response_format=Answer).choices[0].message
    calls = answer.tool_calls or []
    assert isinstance(answer.parsed, Answer) or isinstance(calls[0].function.parsed_arguments, Weather)
