"""Requests of Ollama's `/api/generate`: translated to a chat completion, or if they are raw to a completion."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.ollama.generate_request import OllamaGenerateRequest, RawCompletionRequest
from gateway.errors import InvalidRequest
from gateway.openai.chat_completions import ChatCompletionRequest
from tests.gateway.conftest import MODEL
from tests.gateway.dialects.ollama.test_chat_request import IMAGE_PART, PIXEL


def parse(**fields: Any) -> OllamaGenerateRequest:
    return OllamaGenerateRequest.parse({"model": MODEL, "prompt": "hi"} | fields)


def test_a_prompt_becomes_a_conversation() -> None:
    chat = parse(system="Be brief.", images=[PIXEL], options={"num_predict": 3}, think=False).translated
    assert isinstance(chat, ChatCompletionRequest)
    assert [message.model_dump(exclude_none=True) for message in chat.messages] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [IMAGE_PART, {"type": "text", "text": "hi"}]},
    ]
    assert (chat.token_limit, chat.reasoning_effort, chat.stream) == (3, "none", True)


@pytest.mark.parametrize("fields", [{"raw": True}, {"suffix": "end", "stream": False}])
def test_a_raw_prompt_becomes_a_completion(fields: dict[str, Any]) -> None:
    completion = parse(**fields, format="json").translated
    assert isinstance(completion, RawCompletionRequest)
    assert (completion.prompt, completion.suffix, completion.token_limit) == (["hi"], fields.get("suffix"), None)
    assert completion.response_format is not None


@pytest.mark.parametrize("nothing", ["", None])
def test_without_a_prompt_nothing_is_generated(nothing: str | None) -> None:
    assert parse(prompt=nothing).translated is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"raw": True, "system": "x"}, "system"),
        ({"suffix": "x", "images": [PIXEL]}, "images"),
        ({"template": "{{ .Prompt }}"}, "template"),
        ({"context": [1, 2]}, "context"),
        ({"width": 512}, "width"),
        ({"images": [""]}, "images[0]"),
        ({"prompt": 5}, "prompt"),
    ],
)
def test_invalid_fields_are_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    assert caught.value.param == param


def test_fields_without_effect_are_accepted() -> None:
    assert parse(template="", context=[], logprobs=False).translated == parse().translated
