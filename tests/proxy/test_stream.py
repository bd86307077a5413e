"""Parsing of an upstream's events, and rejection of invalid ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.errors import InvalidAnswer, RequestRefused, UpstreamBusy, UpstreamFailed, UpstreamMisconfigured
from proxy.stream import ChoiceDelta, StreamParser, error_of
from proxy.usage import TokenCount
from router.messages import UNKNOWN_TOKEN_ID, TokenAlternative, TokenLogprob, ToolCallDelta


def parse(parser: StreamParser, **choice: Any) -> list[ChoiceDelta]:
    return parser.parse(json.dumps({"choices": [choice]}))


def call(index: int, arguments: str | None = None, **more: Any) -> dict[str, Any]:
    function = {k: v for k, v in {"name": more.pop("name", None), "arguments": arguments}.items() if v is not None}
    return {"index": index, "function": function, **more}


def calls_of(*chunks: dict[str, Any]) -> list[ToolCallDelta]:
    parser = StreamParser.of(1)
    deltas: list[ToolCallDelta] = []
    for each in chunks:
        for piece in parse(parser, delta={"tool_calls": [each]}):
            deltas += piece.calls or []
    return deltas


def test_chats_and_completions_give_the_same_deltas() -> None:
    chat = parse(StreamParser.of(1), delta={"role": "assistant", "content": "a"}, finish_reason="stop")
    text = parse(StreamParser.of(1), text="a", finish_reason="stop")
    assert chat == text == [ChoiceDelta(0, "a", None, None, "stop")]
    assert parse(StreamParser.of(1), delta={"role": "assistant", "content": ""}) == []
    assert parse(StreamParser.of(1), delta={"refusal": "No."})[0].text == "No."


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart_from_text_and_counts(name: str) -> None:
    """vLLM and OpenRouter call it `reasoning`, DeepSeek and SGLang `reasoning_content`; some send both."""
    parser = StreamParser.of(1)
    (piece,) = parse(parser, delta={"content": None, name: "Hm, ü"})
    assert (piece.text, piece.reasoning, piece.size) == ("", "Hm, ü", 6)
    (both,) = parse(parser, delta={"reasoning_content": "so", "reasoning": "so", "content": "a"})
    assert (both.text, both.reasoning, both.size) == ("a", "so", 3)
    with pytest.raises(InvalidAnswer):
        parse(parser, delta={name: 1})


def test_logprobs_have_no_invented_ids() -> None:
    chosen, other = TokenAlternative(UNKNOWN_TOKEN_ID, "a", -0.5), TokenAlternative(UNKNOWN_TOKEN_ID, "b", -1.0)
    token = {"token": "a", "logprob": -0.5, "bytes": [97]}
    chat = parse(
        StreamParser.of(1),
        delta={"content": "a"},
        logprobs={"content": [{**token, "top_logprobs": [token, {"token": "b", "logprob": -1.0}]}]},
    )
    lists = {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{"a": -0.5, "b": -1.0}]}
    text = parse(StreamParser.of(1), text="a", logprobs=lists)
    assert chat[0].logprobs == text[0].logprobs == [TokenLogprob(chosen, [chosen, other])]
    with pytest.raises(InvalidAnswer):
        parse(StreamParser.of(1), text="a", logprobs={**lists, "tokens": []})


def test_a_call_has_its_name_once_and_a_valid_id() -> None:
    deltas = calls_of(
        call(0, "", name="f", id="call_1"), call(0, '{"a"', name="f", id="call_1"), call(1, "{}", name="g")
    )
    assert deltas[:2] == [ToolCallDelta(index=0, id="call_1", name="f"), ToolCallDelta(index=0, arguments='{"a"')]
    assert (deltas[2].index, deltas[2].name, deltas[2].arguments) == (1, "g", "{}")
    assert deltas[2].id.startswith("call_")
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
def test_calls_out_of_order_or_without_a_valid_name_are_errors(chunks: list[dict[str, Any]]) -> None:
    with pytest.raises(InvalidAnswer):
        calls_of(*chunks)


def test_nothing_follows_the_end_of_a_choice() -> None:
    parser = StreamParser.of(2)
    parse(parser, index=1, delta={}, finish_reason="length")
    assert not parser.finished
    assert parse(parser, index=1, delta={}) == []
    with pytest.raises(InvalidAnswer):
        parse(parser, index=1, delta={"content": "more"})
    parse(parser, index=0, delta={}, finish_reason="stop")
    assert parser.finished


@pytest.mark.parametrize("data", ["", "null", "[]", "5", '{"choices": 5}', '{"choices": [{"delta": {"content": 5}}]}'])
def test_an_invalid_chunk_is_an_error(data: str) -> None:
    with pytest.raises(InvalidAnswer):
        StreamParser.of(1).parse(data)


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        ({"message": "x"}, 500, UpstreamFailed),
        ("x", 500, UpstreamFailed),
        (None, 418, UpstreamFailed),
        ({"message": "x"}, 400, RequestRefused),
        (None, 422, RequestRefused),
        ({"code": 400, "message": "x"}, None, RequestRefused),
        ({"type": "invalid_request_error"}, None, RequestRefused),
        ({"code": 429}, None, UpstreamBusy),
        ({"code": "server_error"}, None, UpstreamFailed),
        ({"code": True}, None, UpstreamFailed),
        ({}, 401, UpstreamMisconfigured),
    ],
)
def test_error_bodies_and_error_events(error: Any, status: int | None, kind: type[Exception]) -> None:
    assert type(error_of(error, status=status)) is kind


def test_token_count_without_reported_usage() -> None:
    count = TokenCount()
    assert count.tokens == 0
    for size, logprobs in ((3, 0), (1, 0), (0, 0)):
        count.add(size, logprobs)
    assert count.tokens == 2  # token by token
    count.add(400, 0)
    assert count.tokens == 101  # many at once
    count.add(30, 5)
    assert count.tokens == 106  # with log probabilities
