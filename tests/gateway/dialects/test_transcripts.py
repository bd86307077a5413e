"""Official clients of other vendors send and get what the golden transcripts say, over a port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import ollama
import pytest

from tests.gateway.conftest import KEY, MODEL, Served
from tests.gateway.dialects.transcripts import GOLDEN, record
from tests.gateway.openai.test_tools import CITY

TOOL: Any = {"name": "weather", "description": "Say the weather of a city.", "input_schema": CITY}
CONVERSATION: Any = [
    {"role": "user", "content": "How is the weather in London?"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "call_0", "name": "weather", "input": {"city": "London"}}],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "call_0", "content": "rain"},
            {"type": "text", "text": "And in the capital of France?"},
        ],
    },
]
MESSAGE: Any = {
    "model": MODEL,
    "max_tokens": 50,
    "system": "Be brief.",
    "messages": CONVERSATION,
    "tools": [TOOL],
    "tool_choice": {"type": "auto"},
    "stop_sequences": ["END"],
}


def anthropic_client(server: Served, key: str = KEY, **options: Any) -> anthropic.AsyncAnthropic:
    url = server.url.removesuffix("/v1")
    return anthropic.AsyncAnthropic(base_url=url, api_key=key, **{"max_retries": 0} | options)


async def anthropic_message(server: Served) -> None:
    async with anthropic_client(server) as client:
        message = await client.messages.create(**MESSAGE)
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]


async def anthropic_stream(server: Served) -> None:
    async with anthropic_client(server) as client, client.messages.stream(**MESSAGE) as stream:
        message = await stream.get_final_message()
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert message.stop_reason == "tool_use"


TOOLS: Any = [{"type": "function", "function": {"name": "weather", "description": "d", "parameters": CITY}}]
CHAT: Any = {
    "model": MODEL,
    "messages": [
        {"role": "user", "content": "How is the weather in London?"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "London"}}}]},
        {"role": "tool", "tool_name": "weather", "content": "rain"},
        {"role": "user", "content": "And in the capital of France?"},
    ],
    "tools": TOOLS,
    "think": True,
    "options": {"num_predict": 50, "temperature": 0.5, "num_ctx": 4096},
    "keep_alive": "5m",
}


def ollama_client(server: Served, key: str = KEY) -> ollama.AsyncClient:
    url = server.url.removesuffix("/v1")
    client = ollama.AsyncClient(url, headers={"Authorization": f"Bearer {key}"})
    server.resources.push_async_callback(client.close)
    return client


async def ollama_chat(server: Served) -> None:
    answer = await ollama_client(server).chat(**CHAT)
    assert [call.function.arguments for call in answer.message.tool_calls or ()] == [{"city": "Paris"}]


async def ollama_stream(server: Served) -> None:
    chunks = [chunk async for chunk in await ollama_client(server).chat(**CHAT, stream=True)]
    assert "".join(chunk.message.content or "" for chunk in chunks) == "Let me see."


async def ollama_generate(server: Served) -> None:
    answer = await ollama_client(server).generate(MODEL, "hi", system="Be brief.", format="json")
    assert (answer.response, answer.thinking) == ("Let me see.", "Paris, then.")


TRANSCRIPTS: dict[str, Callable[[Served], Awaitable[None]]] = {
    "anthropic-message": anthropic_message,
    "anthropic-stream": anthropic_stream,
    "ollama-chat": ollama_chat,
    "ollama-stream": ollama_stream,
    "ollama-generate": ollama_generate,
}


@pytest.mark.parametrize("name", TRANSCRIPTS)
async def test_a_client_sends_and_gets_what_its_transcript_says(name: str) -> None:
    golden = (GOLDEN / f"{name}.json").read_text(encoding="utf-8")
    assert (await record(TRANSCRIPTS[name])).written() == golden


def test_every_file_has_its_client() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(TRANSCRIPTS)
