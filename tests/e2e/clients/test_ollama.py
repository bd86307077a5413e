"""Ollama's Python client against the whole platform with the real model: whole, streamed, tools, formats, refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import ollama
import pytest

from tests.e2e.clients.conftest import Service
from tests.e2e.launcher_process import MODEL

pytestmark = [pytest.mark.e2e, pytest.mark.model, pytest.mark.store]

ASK: Any = [{"role": "user", "content": "What is the capital of France? Answer with one word."}]
GREEDY: Any = {"temperature": 0, "num_predict": 60}
SCHEMA: Any = {"type": "object", "properties": {"city": {"enum": ["Paris", "London"]}}, "required": ["city"]}


@pytest.fixture(scope="module")
def url(service: Service) -> str:
    return str(service.client().base_url).rstrip("/").removesuffix("/v1")


@pytest.fixture(scope="module")
def client(service: Service, url: str) -> Iterator[ollama.Client]:
    with ollama.Client(url, headers={"Authorization": f"Bearer {service.client().api_key}"}) as one:
        yield one


def test_a_stream_equals_the_whole_answer(client: ollama.Client) -> None:
    whole = client.chat(MODEL, ASK, options=GREEDY)
    assert "Paris" in (whole.message.content or "")
    assert (whole.done, whole.done_reason) == (True, "stop")
    chunks = list(client.chat(MODEL, ASK, options=GREEDY, stream=True))
    assert "".join(chunk.message.content or "" for chunk in chunks) == whole.message.content
    assert (chunks[-1].prompt_eval_count, chunks[-1].eval_count) == (whole.prompt_eval_count, whole.eval_count)


def test_a_tool_is_offered(client: ollama.Client) -> None:
    tool: Any = {"type": "function", "function": {"name": "weather", "description": "d", "parameters": SCHEMA}}
    answer = client.chat(MODEL, ASK, tools=[tool], options=GREEDY)
    assert answer.message.content or answer.message.tool_calls


def test_text_is_generated_in_a_format_and_raw(client: ollama.Client) -> None:
    made = client.generate(MODEL, "Which city is the capital of France?", format=SCHEMA, options=GREEDY)
    assert json.loads(made.response or "")["city"] in ("Paris", "London")
    raw = client.generate(MODEL, "The capital of France is", raw=True, options={"temperature": 0, "num_predict": 5})
    assert (raw.done_reason, raw.eval_count) == ("length", 5)


def test_models_and_errors(client: ollama.Client, url: str) -> None:
    assert MODEL in [model.model for model in client.list().models]
    assert "completion" in (client.show(MODEL).capabilities or [])
    with pytest.raises(ollama.ResponseError) as missing:
        client.chat("llama-missing", ASK)
    assert missing.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="managed by the operator"):
        client.pull("llama3")
    wrong = {"Authorization": "Bearer hr_live_wrong"}
    with ollama.Client(url, headers=wrong) as other, pytest.raises(ollama.ResponseError) as refused:
        other.chat(MODEL, ASK)
    assert refused.value.status_code == 401


def test_the_chats_own_api_is_beside_it(url: str) -> None:
    assert httpx.get(f"{url}/api/version").json().keys() == {"version"}
    assert httpx.get(f"{url}/api/sign-up").status_code == 200  # a route of the chat
