"""Anthropic's Python SDK against the whole platform with the real model: whole, streamed, tools, counted, refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from tests.e2e.clients.conftest import Service
from tests.e2e.launcher_process import MODEL

pytestmark = [pytest.mark.e2e, pytest.mark.model, pytest.mark.store]

ASK: Any = {
    "model": MODEL,
    "max_tokens": 60,
    "temperature": 0,
    "messages": [{"role": "user", "content": "What is the capital of France? Answer with one word."}],
}
TOOL: Any = {
    "name": "weather",
    "description": "Say the weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "London"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


@pytest.fixture(scope="module")
def sdk(service: Service) -> Iterator[anthropic.Anthropic]:
    one = service.client()
    url = str(one.base_url).rstrip("/").removesuffix("/v1")
    with anthropic.Anthropic(base_url=url, api_key=one.api_key, max_retries=0) as client:
        yield client


def ask(**fields: Any) -> dict[str, Any]:
    """A request; the SDK has no `temperature` any more, which models here still have."""
    request = ASK | fields
    temperature = request.pop("temperature")
    return {**request, "extra_body": {"temperature": temperature}}


def test_a_stream_equals_the_whole_message(sdk: anthropic.Anthropic) -> None:
    whole = sdk.messages.create(**ask())
    assert whole.content[0].type == "text"
    assert "Paris" in whole.content[0].text
    assert whole.stop_reason == "end_turn"
    with sdk.messages.stream(**ask()) as stream:
        assert "".join(stream.text_stream) == whole.content[0].text
        streamed = stream.get_final_message()
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    counted = sdk.messages.count_tokens(model=MODEL, messages=ASK["messages"]).input_tokens
    for usage in (whole.usage, streamed.usage):
        assert usage.input_tokens + (usage.cache_read_input_tokens or 0) == counted


def test_a_tool_is_called_and_its_result_is_read(sdk: anthropic.Anthropic) -> None:
    question: Any = {"role": "user", "content": "How is the weather in Paris?"}
    tools: Any = {"tools": [TOOL], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}
    with sdk.messages.stream(**ask(messages=[question], max_tokens=200, **tools)) as stream:
        message = stream.get_final_message()
    [call] = [block for block in message.content if block.type == "tool_use"]
    assert (message.stop_reason, call.name) == ("tool_use", "weather")
    assert call.input["city"] in ("Paris", "London")
    result: Any = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny, 21 degrees"}],
    }
    said: Any = {"role": "assistant", "content": message.content}
    answer = sdk.messages.create(**ask(messages=[question, said, result], tools=[TOOL], tool_choice={"type": "none"}))
    assert answer.content[0].type == "text"


def test_a_stop_sequence_and_a_beginning(sdk: anthropic.Anthropic) -> None:
    begun: Any = [{"role": "user", "content": "Count: one two three."}, {"role": "assistant", "content": "one two"}]
    answer = sdk.messages.create(**ask(messages=begun, stop_sequences=["three"]))
    assert (answer.stop_reason, answer.stop_sequence) in (("stop_sequence", "three"), ("end_turn", None))


def test_models_and_errors(sdk: anthropic.Anthropic) -> None:
    assert MODEL in [model.id for model in sdk.models.list()]
    with pytest.raises(anthropic.NotFoundError):
        sdk.messages.create(**ask(model="claude-missing"))
    with pytest.raises(anthropic.BadRequestError):
        sdk.messages.create(**ask(max_tokens=0))
    with pytest.raises(anthropic.AuthenticationError):
        sdk.with_options(api_key="hr_live_wrong").messages.create(**ask())
