"""Responses' requests become chat completions; what is refused names the response's field."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.responses.items import MessageItem
from gateway.openai.responses.request import ResponseRequest
from gateway.openai.responses.translation import input_items, param_of, to_chat
from router.messages import LARK_KEYWORD

CALL = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "4"}]}
FUNCTION = {"type": "function", "name": "f", "parameters": None, "strict": None}
IMAGES = {"type": "image_generation"}


def chat(given: Any = "hi", **fields: Any) -> ChatCompletionRequest:
    request = ResponseRequest.parse({"model": "m", "input": given, **fields})
    return to_chat(request, input_items(request))


def messages(given: Any, **fields: Any) -> list[dict[str, Any]]:
    return [message.model_dump(exclude_none=True) for message in chat(given, **fields).messages]


def test_text_is_a_user_s_message_after_the_instructions() -> None:
    assert messages("hi", instructions="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]


def test_parts_become_parts_of_chat_messages() -> None:
    given = [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What?"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto"},
                {"type": "input_image", "file_id": "file-1"},
                {"type": "input_file", "file_id": "file-2"},
                {"type": "input_file", "file_data": "eA==", "filename": "x.txt"},
            ],
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A", "annotations": []}]},
        {"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "refusal", "refusal": "No."}]},
        {"role": "developer", "content": "x"},
    ]
    first, second, third = messages(given)
    assert [part["type"] for part in first["content"]] == ["text", "image_url", "image_url", "file", "file"]
    assert first["content"][2]["image_url"] == {"url": "file-1"}
    assert [part["file"] for part in first["content"][3:]] == [
        {"file_id": "file-2"},
        {"file_data": "eA==", "filename": "x.txt"},
    ]
    assert second == {"role": "assistant", "content": "A\nNo."}
    assert third == {"role": "developer", "content": "x"}


def test_calls_and_text_of_a_turn_are_one_message() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "so"}]}
    other = {**CALL, "call_id": "b"}
    custom = {"type": "custom_tool_call", "call_id": "c", "name": "g", "input": 'say "żółw"'}
    outputs = [OUTPUT, {**OUTPUT, "call_id": "b"}, {"type": "custom_tool_call_output", "call_id": "c", "output": "5"}]
    given = ["q", reasoning, CALL, {"role": "assistant", "content": "hm"}, other, custom, *outputs]
    user, assistant, *results = messages([{"role": "user", "content": given[0]}, *given[1:]])
    assert user["content"] == "q"
    assert (assistant["content"], assistant["reasoning_content"]) == ("hm", "so")
    assert [call["function"]["name"] for call in assistant["tool_calls"]] == ["f", "f", "g"]
    assert assistant["tool_calls"][2]["function"]["arguments"] == '{"input": "say \\"żółw\\""}'
    assert [(each["tool_call_id"], each["content"]) for each in results] == [
        ("a", [{"type": "text", "text": "4"}]),
        ("b", [{"type": "text", "text": "4"}]),
        ("c", "5"),
    ]


def test_outputs_of_tools_have_images_and_files() -> None:
    parts = [{"type": "input_image", "file_id": "file-1"}, {"type": "input_file", "file_id": "file-2"}]
    *_, output = messages([CALL, {**OUTPUT, "output": [*OUTPUT["output"], *parts]}])
    assert output["content"] == [
        {"type": "text", "text": "4"},
        {"type": "image_url", "image_url": {"url": "file-1"}},
        {"type": "file", "file": {"file_id": "file-2"}},
    ]
    with pytest.raises(InvalidRequest, match="outputs of tools have 'input_text', 'input_image'"):
        chat([CALL, {**OUTPUT, "output": [{"type": "refusal", "refusal": "No."}]}])


def test_options_have_their_chat_names() -> None:
    body = chat(
        max_output_tokens=9,
        reasoning={"effort": "low"},
        truncation="auto",
        tools=[FUNCTION],
        tool_choice={"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
        parallel_tool_calls=False,
        seed=4,
        top_k=2,
        service_tier="flex",
    )
    assert body.max_completion_tokens == 9
    assert body.reasoning_effort == "low"
    assert body.truncate_prompt_tokens == -1
    assert body.tools is not None
    assert body.tools[0].function.name == "f"
    assert not isinstance(body.tool_choice, str | None)
    assert body.tool_choice.type == "allowed_tools"
    assert (body.parallel_tool_calls, body.seed, body.top_k, body.service_tier) == (False, 4, 2, "flex")


def test_no_calls_of_built_in_tools_may_be_asked_for() -> None:
    request = ResponseRequest.parse({"model": "m", "input": "Hello.", "max_tool_calls": 0})
    assert request.max_tool_calls == 0


def test_a_grammar_of_a_custom_tool_limits_its_input() -> None:
    grammar = {"type": "grammar", "syntax": "regex", "definition": "[ab]+|c"}
    body = chat(tools=[{"type": "custom", "name": "g", "format": grammar}])
    assert body.tools is not None
    function = body.tools[0].function
    assert function.strict
    assert function.parameters is not None
    assert function.parameters["properties"]["input"] == {"type": "string", "pattern": "^(?:[ab]+|c)$"}


def test_a_lark_grammar_of_a_custom_tool_reaches_the_worker() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'}
    body = chat(tools=[{"type": "custom", "name": "g", "format": grammar}])
    assert body.tools is not None
    parameters = body.tools[0].function.parameters
    assert parameters is not None
    assert parameters["properties"]["input"] == {"type": "string", LARK_KEYWORD: 'start: "a"'}


@pytest.mark.parametrize(
    ("choice", "must_draw", "off"),
    [
        (None, False, ["math"]),
        ("auto", False, ["math"]),
        ("none", False, ["math", "image"]),
        ("required", True, ["math"]),
        (IMAGES, True, ["math"]),
    ],
)
def test_image_generation_is_a_tool_of_the_assistant_itself(choice: Any, must_draw: bool, off: list[str]) -> None:
    fields = {"model": "m", "tools": [{**IMAGES, "size": "auto", "partial_images": 2}], "tools_off": ["math"]}
    request = ResponseRequest.parse(fields if choice is None else {**fields, "tool_choice": choice})
    body = to_chat(request, [MessageItem(role="user", content="a cat")])
    assert (body.tools, body.tool_choice, body.tools_off) == (None, None, off)
    assert (request.draws, request.must_draw) == (True, must_draw)


@pytest.mark.parametrize(
    ("choice", "may_draw", "passed_on"), [(None, True, None), ("auto", True, "auto"), ("none", False, "none")]
)
def test_image_generation_beside_functions_is_chosen_by_the_model(
    choice: Any, may_draw: bool, passed_on: str | None
) -> None:
    fields = {"model": "m", "tools": [FUNCTION, IMAGES]}
    request = ResponseRequest.parse(fields if choice is None else {**fields, "tool_choice": choice})
    body = to_chat(request, [MessageItem(role="user", content="a cat")])
    assert ([each.function.name for each in body.tools or ()], body.tool_choice) == (["f"], passed_on)
    assert (request.may_draw, request.must_draw) == (may_draw, False)


def test_images_of_earlier_answers_are_empty_texts_of_the_assistant() -> None:
    image = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "iVBO", "size": "64x64"}
    given = [{"role": "user", "content": "a cat"}, image, image, {"role": "user", "content": "a dog"}]
    assert [(each["role"], each["content"]) for each in messages(given)] == [
        *(("user", "a cat"), ("assistant", ""), ("user", "a dog")),
    ]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"input": []}, "input"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input"),
    ({"input": [{"type": "web_search_call", "id": "ws_1"}]}, "input[0]"),
    ({"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "http://x"}]}]}, "input[0].content[0]"),
    ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input[0].content[0]"),
    (
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "file-1", "image_url": "x"}]}]},
        "input[0].content[0]",
    ),
    ({"input": [{"role": "assistant", "content": [{"type": "input_file", "file_id": "file-1"}]}]}, "input[0]"),
    ({"input": "x", "include": ["reasoning.encrypted_content"], "background": True}, "include"),
    ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0]"),
    ({"input": [{"role": "system", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input[0]"),
    ({"input": [OUTPUT]}, "input"),
    ({"input": [CALL, {"role": "user", "content": "and?"}, OUTPUT]}, "input"),
    ({"tools": [{"type": "web_search"}]}, "tools[0]"),
    ({"tools": [{**FUNCTION, "parameters": {"type": "array"}}]}, "tools[0].parameters"),
    ({"tools": [FUNCTION, FUNCTION]}, "tools"),
    (
        {
            "tools": [
                {"type": "custom", "name": "g", "format": {"type": "grammar", "syntax": "regex", "definition": "(a+)+"}}
            ]
        },
        "tools[0].format.definition",
    ),
    (
        {"tools": [{"type": "custom", "name": "g", "format": {"type": "grammar", "syntax": "ebnf"}}]},
        "tools[0].format.syntax",
    ),
    ({"tool_choice": {"type": "function", "name": "missing"}, "tools": [FUNCTION]}, "tool_choice"),
    ({"tool_choice": {"type": "file_search"}, "tools": [FUNCTION]}, "tool_choice"),
    ({"tool_choice": IMAGES, "tools": [FUNCTION]}, "tool_choice"),
    ({"tool_choice": IMAGES}, "tool_choice"),
    ({"tool_choice": {"type": "function", "name": "f"}, "tools": [IMAGES]}, "tool_choice"),
    ({"tool_choice": "required", "tools": [IMAGES, FUNCTION]}, "tool_choice"),
    ({"tools": [IMAGES, {"type": "file_search", "vector_store_ids": ["vs_1"]}]}, "tools"),
    ({"tools": [{**IMAGES, "size": "1024x1024"}]}, "tools[0].size"),
    ({"tools": [{**IMAGES, "background": "transparent"}]}, "tools[0].background"),
    ({"tools": [{**IMAGES, "output_format": "webp"}]}, "tools[0].output_format"),
    ({"tools": [{**IMAGES, "action": "edit"}]}, "tools[0].action"),
    ({"tools": [{**IMAGES, "input_image_mask": {"file_id": "file-1"}}]}, "tools[0].input_image_mask"),
    ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
    ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": 3}}}}, "text.format.schema"),
    ({"temperature": 3}, "temperature"),
    ({"stream_options": {}}, "stream_options"),
    ({"prompt": {"id": "p"}}, "prompt"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED)
def test_a_refusal_names_the_field(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        chat(**{"given": fields.get("input", "hi")} | {name: each for name, each in fields.items() if name != "input"})
    assert refused.value.param == param
    assert "messages[" not in str(refused.value)


def test_a_refusal_counts_the_calls_without_an_output() -> None:
    with pytest.raises(InvalidRequest, match="1 of 2"):
        messages([{"role": "user", "content": "q"}, CALL, {**CALL, "call_id": "b"}, OUTPUT])


def test_fields_of_chat_completions_have_names_in_responses() -> None:
    assert param_of("messages[1].content[0].image_url.url") == "input"
    assert param_of("response_format.json_schema.schema") == "text.format.schema"
    assert param_of("max_completion_tokens") == "max_output_tokens"
    assert param_of("model") == "model"
    assert param_of(None) is None


def test_the_texts_of_a_turn_are_lines_of_one_message() -> None:
    texts = [{"role": "assistant", "content": each} for each in ("", "a", "", "b")]
    assert messages([{"role": "user", "content": "q"}, *texts])[1] == {"role": "assistant", "content": "a\n\nb"}
    assert messages([{"role": "user", "content": "q"}, texts[0]])[1] == {"role": "assistant", "content": ""}
