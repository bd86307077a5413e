"""Events become pieces; what can't be part of this answer is an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.errors import Busy, Failed, Misbehaved, RefusedUs, RequestRefused
from proxy.stream import Piece, Reading, error_of
from proxy.usage import Count
from router.messages import UNKNOWN_TOKEN_ID, TokenAlternative, TokenLogprob, ToolCallDelta


def read(reading: Reading, **choice: Any) -> list[Piece]:
    return reading.read(json.dumps({"choices": [choice]}))


def call(index: int, arguments: str | None = None, **more: Any) -> dict[str, Any]:
    function = {k: v for k, v in {"name": more.pop("name", None), "arguments": arguments}.items() if v is not None}
    return {"index": index, "function": function, **more}


def calls_of(*chunks: dict[str, Any]) -> list[ToolCallDelta]:
    reading = Reading.of(1)
    said: list[ToolCallDelta] = []
    for each in chunks:
        for piece in read(reading, delta={"tool_calls": [each]}):
            said += piece.calls or []
    return said


def test_a_chat_and_a_completion_are_read_alike() -> None:
    chat = read(Reading.of(1), delta={"role": "assistant", "content": "a"}, finish_reason="stop")
    text = read(Reading.of(1), text="a", finish_reason="stop")
    assert chat == text == [Piece(0, "a", None, None, "stop")]
    assert read(Reading.of(1), delta={"role": "assistant", "content": ""}) == []
    assert read(Reading.of(1), delta={"refusal": "No."})[0].text == "No."


def test_logprobs_have_no_invented_ids() -> None:
    chosen, other = TokenAlternative(UNKNOWN_TOKEN_ID, "a", -0.5), TokenAlternative(UNKNOWN_TOKEN_ID, "b", -1.0)
    token = {"token": "a", "logprob": -0.5, "bytes": [97]}
    chat = read(
        Reading.of(1),
        delta={"content": "a"},
        logprobs={"content": [{**token, "top_logprobs": [token, {"token": "b", "logprob": -1.0}]}]},
    )
    lists = {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{"a": -0.5, "b": -1.0}]}
    text = read(Reading.of(1), text="a", logprobs=lists)
    assert chat[0].logprobs == text[0].logprobs == [TokenLogprob(chosen, [chosen, other])]
    with pytest.raises(Misbehaved):
        read(Reading.of(1), text="a", logprobs={**lists, "tokens": []})


def test_calls_have_their_name_once_and_an_id_that_is_one() -> None:
    said = calls_of(call(0, "", name="f", id="call_1"), call(0, '{"a"', name="f", id="call_1"), call(1, "{}", name="g"))
    assert said[:2] == [ToolCallDelta(index=0, id="call_1", name="f"), ToolCallDelta(index=0, arguments='{"a"')]
    assert (said[2].index, said[2].name, said[2].arguments) == (1, "g", "{}")
    assert said[2].id.startswith("call_")
    assert calls_of(call(0, name="f", id="<script>"))[0].id.startswith("call_")


@pytest.mark.parametrize(
    "chunks",
    [
        [call(1, name="f")],
        [call(-1, name="f")],
        [call(0, "{}")],
        [call(0, name="a b")],
        [call(0, name="x" * 65)],
        [call(0, name="f"), call(2, name="g")],
    ],
)
def test_calls_that_do_not_follow_on_are_errors(chunks: list[dict[str, Any]]) -> None:
    with pytest.raises(Misbehaved):
        calls_of(*chunks)


def test_nothing_follows_the_end_of_a_choice() -> None:
    reading = Reading.of(2)
    read(reading, index=1, delta={}, finish_reason="length")
    assert not reading.finished
    assert read(reading, index=1, delta={}) == []
    with pytest.raises(Misbehaved):
        read(reading, index=1, delta={"content": "more"})
    read(reading, index=0, delta={}, finish_reason="stop")
    assert reading.finished


@pytest.mark.parametrize("data", ["", "null", "[]", "5", '{"choices": 5}', '{"choices": [{"delta": {"content": 5}}]}'])
def test_what_is_no_chunk_is_an_error(data: str) -> None:
    with pytest.raises(Misbehaved):
        Reading.of(1).read(data)


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        ({"message": "x"}, 500, Failed),
        ("x", 500, Failed),
        (None, 418, Failed),
        ({"message": "x"}, 400, RequestRefused),
        (None, 422, RequestRefused),
        ({"code": 400, "message": "x"}, None, RequestRefused),
        ({"type": "invalid_request_error"}, None, RequestRefused),
        ({"code": 429}, None, Busy),
        ({"code": "server_error"}, None, Failed),
        ({"code": True}, None, Failed),
        ({}, 401, RefusedUs),
    ],
)
def test_errors_by_status_or_as_events(error: Any, status: int | None, kind: type[Exception]) -> None:
    assert type(error_of(error, status=status)) is kind


def test_counting_without_the_upstream_s_word() -> None:
    count = Count()
    assert count.tokens == 0
    for size, logprobs in ((3, 0), (1, 0), (0, 0)):
        count.add(size, logprobs)
    assert count.tokens == 2  # token by token
    count.add(400, 0)
    assert count.tokens == 101  # many at once
    count.add(30, 5)
    assert count.tokens == 106  # told one by one
