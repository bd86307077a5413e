"""Tests of the benchmark of responses: equal prompts in its requests, and the differences in its rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.platform_client import PROMPT
from benchmarks.responses import ANSWERS, APIS, CHAT, RESPONSES, Answer, ApiTarget, compared
from benchmarks.results import Row
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.responses.request import ResponseRequest
from gateway.openai.responses.translation import input_items, to_chat


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("answer", ANSWERS)
def test_each_kind_of_request_is_the_same_chat(answer: Answer, api: str) -> None:
    target = ApiTarget("host", 1, "key", "model", api=api, answer=answer)
    head, _, content = target.request().decode().partition("\r\n\r\n")
    body: dict[str, Any] = json.loads(content)
    if api == RESPONSES:
        response = ResponseRequest.parse(body)
        chat = to_chat(response, input_items(response))
        assert (response.stream, response.stores) == answer
        assert head.startswith("POST /v1/responses ")
    else:
        chat = ChatCompletionRequest.parse(body)
        assert (chat.stream, chat.store) == answer
        assert head.startswith("POST /v1/chat/completions ")
    assert [(each.role, each.content) for each in chat.messages] == [("user", PROMPT)]
    assert chat.token_limit == 16


def test_rows_have_what_responses_add_and_the_writes_of_storing() -> None:
    def load(api: str, answer: Answer) -> Row:
        streamed, stored = answer
        ms = 10.0 + 1.0 * streamed + 2.0 * stored + 0.5 * (api == RESPONSES)
        times: Row = {f"{time}_p{q}_ms": k * ms for k, time in ((1, "ttft"), (2, "e2e")) for q in (50, 95)}
        return {"requests": 300, "failed": 0, **times, "store_writes": 1.25 + stored}

    rows = compared({answer: [load(api, answer) for api in APIS] for answer in ANSWERS})
    assert [(row["answer"], row["stored"], row["api"]) for row in rows] == [
        ("streamed" if streamed else "whole", "yes" if stored else "no", api)
        for streamed, stored in ANSWERS
        for api in APIS
    ]
    for row in rows:
        added = [row["added_ttft_p50_ms"], row["added_e2e_p50_ms"]]
        assert added == ([None, None] if row["api"] == CHAT else [0.5, 1.0])
        assert row["writes_added_by_storing"] == (1.0 if row["stored"] == "yes" else None)
