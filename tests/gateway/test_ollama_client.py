"""What Ollama's own Python client makes of our answers, lists and errors, on a port."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import ollama
import pytest
from pydantic import BaseModel

from router.bus import Bus
from router.messages import ChatPrompt, FailureCode, GrammarKind
from router.transport.memory import MemoryTransport
from tests.fakes.scripted_worker import ScriptedWorker, count, embed, fail, say
from tests.gateway.conftest import HI, MODEL, Serve, eventually
from tests.gateway.dialects.ollama.test_answer import ANSWER
from tests.gateway.dialects.test_transcripts import ollama_client

EMBEDDER = "org/embedder"


class Answer(BaseModel):
    good: bool


def weather(city: str) -> str:
    """Say the weather of a city.

    Args:
        city: Name of the city

    Returns:
        str: The weather
    """
    return f"sunny in {city}"


async def test_chats_are_streamed_and_whole(serve: Serve) -> None:
    client = ollama_client(await serve(count))
    chunks = [chunk async for chunk in await client.chat(MODEL, HI, stream=True)]
    assert [chunk.message.content for chunk in chunks] == ["0 ", "1 ", "2 ", "3 ", "4 ", ""]
    assert (chunks[-1].done, chunks[-1].done_reason, chunks[-1].eval_count) == (True, "length", 5)
    whole = await client.chat(MODEL, HI)
    assert whole.message.content == "0 1 2 3 4 "
    assert (whole.total_duration or 0) > 0


async def test_a_tool_is_called_and_its_result_is_sent_back(serve: Serve) -> None:
    server = await serve(ANSWER)
    client = ollama_client(server)
    first = await client.chat(MODEL, HI, tools=[weather], think=True)
    assert first.message.thinking == "Hm. Yes."
    assert first.message.tool_calls is not None
    calls = [(call.function.name, dict(call.function.arguments)) for call in first.message.tool_calls]
    assert calls == [("weather", {"city": "Łódź"}), ("f", {})]
    results = [{"role": "tool", "tool_name": name, "content": "sunny"} for name, _ in calls]
    await client.chat(MODEL, [*HI, first.message, *results], tools=[weather])
    prompt = server.stage.worker.jobs[1].prompt
    assert isinstance(prompt, ChatPrompt)
    assert [message["role"] for message in prompt.messages] == ["user", "assistant", "tool", "tool"]
    assert prompt.tools is not None
    assert prompt.tools[0]["function"]["parameters"]["required"] == ["city"]


async def test_text_is_generated_with_options_and_a_schema(serve: Serve) -> None:
    server = await serve(say('{"good": true}'))
    client = ollama_client(server)
    options: Any = ollama.Options(temperature=0.0, num_predict=20, num_ctx=2048, stop=["END"])
    made = await client.generate(
        MODEL, "Is it good?", system="Be brief.", format=Answer.model_json_schema(), options=options
    )
    assert Answer.model_validate_json(made.response or "").good
    job = server.stage.worker.jobs[0]
    assert job.grammar is not None
    assert (job.grammar.kind, job.sampling.max_tokens, job.text.stop) == (GrammarKind.JSON_SCHEMA, 20, ["END"])
    streamed = [chunk.response async for chunk in await client.generate(MODEL, "x", stream=True)]
    assert "".join(part or "" for part in streamed) == '{"good": true}'


async def test_embeddings_and_models(serve: Serve) -> None:
    server = await serve()
    client = ollama_client(server)
    async with AsyncExitStack() as stack:
        bus = Bus(MemoryTransport(server.stage.broker, EMBEDDER))
        await bus.start()
        stack.push_async_callback(bus.close)
        await stack.enter_async_context(ScriptedWorker(bus, EMBEDDER, embed, "worker-2", dimensions=4).running())
        await eventually(lambda: server.stage.gateway.models.find(EMBEDDER) is not None)
        assert [len(vector) for vector in (await client.embed(EMBEDDER, ["a", "b"])).embeddings] == [4, 4]
        assert len((await client.embeddings(EMBEDDER, "a")).embedding) == 4
        assert [model.model for model in (await client.list()).models] == [MODEL, EMBEDDER]
        assert (await client.show(EMBEDDER)).capabilities == ["embedding"]


async def test_errors_are_raised(serve: Serve) -> None:
    client = ollama_client(await serve(fail(FailureCode.ENGINE_ERROR, after_tokens=True)))
    with pytest.raises(ollama.ResponseError, match="does not exist") as missing:
        await client.chat("org/none", HI)
    assert missing.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="managed by the operator"):
        await client.pull("llama3")

    async def read() -> None:
        async for _ in await client.chat(MODEL, HI, stream=True):
            pass

    with pytest.raises(ollama.ResponseError, match="No"):
        await read()
