"""Tests of the benchmark of responses: equal prompts in its requests, and the differences in its rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.platform_client import PROMPT
from benchmarks.responses import CHAT, KINDS, RESPONSES, Kind, KindTarget, compared
from benchmarks.results import Row
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.responses.request import ResponseRequest
from gateway.openai.responses.translation import input_items, to_chat


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_request_is_the_same_chat(kind: Kind) -> None:
    streamed, stored, api = kind
    head, _, content = KindTarget("host", 1, "key", "model", kind=kind).request().decode().partition("\r\n\r\n")
    body: dict[str, Any] = json.loads(content)
    if api == RESPONSES:
        response = ResponseRequest.parse(body)
        chat = to_chat(response, input_items(response))
        assert (response.stream, response.stores) == (streamed, stored)
        assert head.startswith("POST /v1/responses ")
    else:
        chat = ChatCompletionRequest.parse(body)
        assert (chat.stream, chat.store) == (streamed, stored)
        assert head.startswith("POST /v1/chat/completions ")
    assert [(each.role, each.content) for each in chat.messages] == [("user", PROMPT)]
    assert chat.token_limit == 16


def test_rows_have_what_responses_add_and_the_writes_of_storing() -> None:
    def row(kind: Kind) -> Row:
        streamed, stored, api = kind
        ms = 10.0 + 1.0 * streamed + 2.0 * stored + 0.5 * (api == RESPONSES)
        return {"ttft_p50_ms": ms, "e2e_p50_ms": 2 * ms, "gateway_cpu_ms": 3 * ms, "store_writes": 1.25 + stored}

    rows = dict(zip(KINDS, compared({kind: row(kind) for kind in KINDS}), strict=True))
    for (_, stored, api), found in rows.items():
        added = [found[f"added_{column}"] for column in ("ttft_p50_ms", "e2e_p50_ms", "gateway_cpu_ms")]
        assert added == ([None, None, None] if api == CHAT else [0.5, 1.0, 1.5])
        assert found["writes_added_by_storing"] == (1.0 if stored else None)
