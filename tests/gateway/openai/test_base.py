"""Invalid request fields: 400 that names the field, and no job."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest, UnsupportedParameter
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.completions import CompletionRequest
from tests.gateway.conftest import MODEL, SetStage

HI = [{"role": "user", "content": "hi"}]
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}

BAD_FIELDS: list[tuple[str, Any]] = [
    *(("n", value) for value in (10**9, 0, -1, True, "3", 2.0, [1])),
    *(("max_tokens", value) for value in (0, -1, 2**31, 2**63, 1e30, "5", False)),
    *(("max_completion_tokens", value) for value in (0, 2**31, 1.0)),
    *(("temperature", value) for value in (-1, 2.1, "1", True, [])),
    *(("top_p", value) for value in (-0.1, 1.1, "x")),
    *(("top_k", value) for value in (-2, 1.0, "1")),
    *(("min_p", value) for value in (2, -0.5)),
    *((name, value) for name in ("presence_penalty", "frequency_penalty") for value in (1e9, -1e9, 2.01)),
    *(("repetition_penalty", value) for value in (0, -1, 1e9)),
    *(("seed", value) for value in (2**63, -(2**63) - 1, 1.5, "1")),
    *(("logit_bias", value) for value in ({"abc": 1}, {"-1": 1}, {"1": 1e9}, {"1": "x"}, {"٣": 1}, [1], {"9" * 12: 1})),
    ("logit_bias", {str(token): 1 for token in range(100_000)}),
    *(("stop", value) for value in (["a"] * 5, "", [""], "x" * 257, [1], 5, ["a"] * 10_000)),
    *(("stream", value) for value in ("yes", 1)),
    ("stream_options", {"include_usage": "x"}),
    *(("service_tier", value) for value in ("gold", 9)),
    *(("model", value) for value in ("", 5, None, {"$ne": None}, "x" * 10_000)),
    ("metadata", {"a": 1}),
    ("metadata", {str(i): "x" for i in range(17)}),
    ("metadata", {"a\0b": "x"}),
    ("min_tokens", -1),
    ("stop_token_ids", [-1]),
    ("ignore_eos", "true"),
    ("cache_salt", ""),
    *(("best_of", value) for value in (10**9, 21, -1, True, 2.0)),
    *(("prompt_logprobs", value) for value in (21, -1, 10**6, True)),
    *(("bad_words", value) for value in ([""], ["x" * 257], ["x"] * 65, "x", [1])),
    *(("allowed_token_ids", value) for value in ([], [-1], [2**31], ["1"], list(range(4097)))),
    *(("truncate_prompt_tokens", value) for value in (-2, 1.0, "1", 2**31)),
    *((name, 1) for name in ("echo", "return_token_ids", "return_tokens_as_token_ids")),
]

BAD_CHAT_FIELDS: list[tuple[str, Any]] = [
    *(("top_logprobs", value) for value in (21, -1, 1_000_000)),
    ("logprobs", 5),
    ("chat_template_kwargs", {"tokenize": True}),
    ("chat_template_kwargs", {"x": {"y": 1}}),
    ("chat_template_kwargs", {"x": [1]}),
    ("chat_template_kwargs", {"a b": 1}),
    ("reasoning_effort", "enormous"),
    ("prediction", {"type": "content"}),
    ("prompt_cache_retention", "for ever"),
    *(("messages", value) for value in ([], None, "hi", HI * 100_000, {})),
]

BAD_MESSAGES: list[tuple[Any, str]] = [
    (None, "messages[0]"),
    ("hi", "messages[0]"),
    ({"role": "root", "content": "x"}, "messages[0].role"),
    ({"content": "x"}, "messages[0].role"),
    ({"role": "user"}, "messages[0].content"),
    ({"role": "user", "content": 5}, "messages[0].content"),
    ({"role": "user", "content": None}, "messages[0].content"),
    ({"role": "user", "content": []}, "messages[0].content"),
    ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0]"),
    ({"role": "user", "content": [{"type": "nonsense", "text": "x"}]}, "messages[0].content[0]"),
    ({"role": "user", "content": ["x"]}, "messages[0].content[0]"),
    ({"role": "user", "content": [{"type": "image_url"}]}, "messages[0].content[0]"),
    ({"role": "system", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}, "messages[0].content[0]"),
    ({"role": "assistant"}, "messages[0]"),
    ({"role": "assistant", "tool_calls": [{"id": "x"}]}, "messages[0].tool_calls[0].function"),
    ({"role": "tool", "content": "x"}, "messages[0].tool_call_id"),
    ({"role": "tool", "content": "x", "tool_call_id": "call_9"}, "messages"),
    ({"role": "assistant", "tool_calls": [CALL]}, "messages"),
    ({"role": "function", "content": "x"}, "messages[0].name"),
]

NOT_OFFERED: list[tuple[str, Any]] = [
    ("modalities", ["text", "audio"]),
    ("web_search_options", {}),
    ("chat_template", "{% for i in range(10**9) %}{% endfor %}"),
    ("guided_regex", "(a+)+$"),
    ("guided_decoding_backend", "x"),
    ("priority", 9),
    ("logprob_token_ids", [1]),
]


def chat(**fields: Any) -> ChatCompletionRequest:
    return ChatCompletionRequest.parse({"model": MODEL, "messages": HI, **fields})


@pytest.mark.parametrize(("field", "value"), BAD_FIELDS + BAD_CHAT_FIELDS)
def test_a_wrong_value_names_its_field(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chat(**{"stream": True, field: value})
    assert caught.value.param is not None
    assert caught.value.param.startswith(field)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(("field", "value"), BAD_FIELDS)
def test_completions_are_as_strict(field: str, value: Any) -> None:
    if field == "max_completion_tokens" or (field == "max_tokens" and value == 0 and value is not False):
        pytest.skip("not a field of completions, or fine there")
    with pytest.raises(InvalidRequest):
        CompletionRequest.parse({"model": MODEL, "prompt": "x", "stream": True, field: value})


@pytest.mark.parametrize(("message", "param"), BAD_MESSAGES)
def test_an_invalid_message_is_named(message: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chat(messages=[message])
    assert caught.value.param == param


@pytest.mark.parametrize(("field", "value"), NOT_OFFERED)
def test_unsupported_fields_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(UnsupportedParameter) as caught:
        chat(**{field: value})
    assert caught.value.param == field


@pytest.mark.parametrize(
    "fields",
    [
        {"stream_options": {"include_usage": True}},
        {"stream": False, "stream_options": {}},
        {"top_logprobs": 2},
        {"logprobs": False, "top_logprobs": 0},
        {"min_tokens": 5, "max_tokens": 4},
        {"best_of": 2, "n": 3},
        {"best_of": 2, "stream": True},
        {"prompt_logprobs": 0, "stream": True},
        {"truncate_prompt_tokens": 0},
        {"continue_final_message": True},
        {
            "continue_final_message": True,
            "add_generation_prompt": True,
            "messages": [{"role": "assistant", "content": ""}],
        },
    ],
)
def test_conflicting_fields_are_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chat(**fields)
    assert caught.value.param in fields


@pytest.mark.parametrize(
    "fields",
    [
        {"n": None, "stop": [], "tools": [], "functions": None, "tool_choice": "auto", "best_of": 1},
        {
            "response_format": {"type": "text"},
            "modalities": ["text"],
            "audio": {"voice": "x", "format": "wav"},
            "echo": False,
            "priority": 0,
        },
        {
            "echo": True,
            "bad_words": ["x"],
            "allowed_token_ids": [0],
            "truncate_prompt_tokens": -1,
            "best_of": 3,
            "n": 2,
        },
        {"prompt_logprobs": 20, "return_token_ids": True, "return_tokens_as_token_ids": True, "stream": False},
        {"temperature": 0, "top_p": 0, "seed": -1, "stop": ["a", "b", "c", "d"], "logit_bias": {"0": 1, "9": -100.0}},
        {"prediction": {"type": "content", "content": "x"}, "service_tier": "fast", "request_id": "r"},
        {"store": True, "user": "u", "metadata": {"a": "b"}, "parallel_tool_calls": True, "reasoning_effort": "low"},
        {"api_base": "http://evil", "api_key": "x", "extra_headers": {"a": "b"}, "evil": 1},
        {"messages": [{"role": "system", "content": "x"}]},
        {
            "messages": [
                {"role": "assistant", "tool_calls": [CALL]},
                {"role": "tool", "content": "x", "tool_call_id": "call_1"},
            ]
        },
        {"messages": [{"role": "function", "name": "f", "content": None}, {"role": "assistant", "refusal": "no"}]},
    ],
)
def test_valid_fields_are_accepted(fields: dict[str, Any]) -> None:
    chat(**fields)


@pytest.mark.parametrize("logprobs", [6, -1, True, 1.0])
def test_completions_logprobs_are_a_number_up_to_five(logprobs: Any) -> None:
    with pytest.raises(InvalidRequest):
        CompletionRequest.parse({"model": MODEL, "prompt": "x", "logprobs": logprobs})


@pytest.mark.parametrize("body", ["null", "[]", '"x"', "5", "{}", '{"model": "m"}'])
async def test_bodies_that_are_not_requests_are_refused(set_stage: SetStage, body: str) -> None:
    stage = await set_stage()
    for path in ("/v1/chat/completions", "/v1/completions"):
        response = await stage.client.post(path, content=body, headers={"content-type": "application/json"})
        assert response.status_code == 400
        assert response.json()["error"].keys() == {"message", "type", "param", "code"}
        assert response.json()["error"]["type"] == "invalid_request_error"


async def test_the_operators_maximum_of_choices(set_stage: SetStage) -> None:
    stage = await set_stage(max_choices=3)
    assert (await stage.chat(n=3)).status_code == 200
    response = await stage.chat(n=4)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "n"
    assert len(stage.worker.jobs) == 1


async def test_prompts_that_cannot_fit_are_refused(set_stage: SetStage) -> None:
    stage = await set_stage()  # 128 tokens of at most 8 bytes
    assert (await stage.chat("x" * 127 * 8)).status_code == 200
    for response in (
        await stage.chat("x" * 128 * 8),
        await stage.chat("🏳️‍🌈" * 1000),
        await stage.complete(["ok", "x" * 2000]),
        await stage.complete([1] * 128),
    ):
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "context_length_exceeded"
    assert len(stage.worker.jobs) == 1
