"""`/v1/tokenize` and `/v1/detokenize`: a worker's tokenizer answers by a job that takes no slot and costs nothing."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from auth_billing.access.principal import Principal
from gateway.http import rate_limits
from gateway.http.tokenisation import count_prompt_tokens
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.tokenisation import TokenizeResponse
from router.bus import Bus
from router.messages import ChatPrompt, Outcome, ServiceClass, TextPrompt, TokenisationPrompt, TokenPrompt, Usage
from router.transport.memory import MemoryTransport
from tests.fakes.scripted_worker import ScriptedWorker, fail, never, status, tokenise
from tests.gateway.conftest import HI, MODEL, SetStage, Stage, eventually

TOKENISER = "org/tokeniser"
SYSTEM = {"role": "system", "content": "Be brief."}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@dataclass
class Tokenising:
    """A stage with a worker that tokenises beside one that does not."""

    stage: Stage
    worker: ScriptedWorker

    async def __call__(self, path: str = "/v1/tokenize", **fields: Any) -> httpx.Response:
        return await self.stage.client.post(path, json={"model": TOKENISER, **fields})

    @property
    def prompt(self) -> TokenisationPrompt:
        """The prompt of the worker's last job."""
        prompt = self.worker.jobs[-1].prompt
        assert isinstance(prompt, TokenisationPrompt)
        return prompt


@pytest.fixture
async def tokenising(set_stage: SetStage) -> AsyncIterator[Tokenising]:
    stage = await set_stage(limits_per_key="600 requests/minute, 6000 tokens/minute")
    async with AsyncExitStack() as stack:
        bus = Bus(MemoryTransport(stage.broker, "worker-2"))
        await bus.start()
        stack.push_async_callback(bus.close)
        worker = ScriptedWorker(bus, TOKENISER, tokenise, "worker-2", tokenises=True, reads_images=True)
        await stack.enter_async_context(worker.running())
        await eventually(lambda: stage.gateway.models.find(TOKENISER) is not None)
        yield Tokenising(stage, worker)


@pytest.mark.parametrize("path", ["/v1/tokenize", "/tokenize"])
async def test_a_text_is_tokenised(tokenising: Tokenising, path: str) -> None:
    response = await tokenising(path, prompt="one two three", return_token_strs=True)
    assert response.status_code == 200, response.text
    body = response.json()
    TokenizeResponse.model_validate(body)
    assert body == {"count": 3, "max_model_len": 128, "tokens": [3, 3, 5], "token_strs": ["one", "two", "three"]}
    assert tokenising.prompt == TokenisationPrompt(source=TextPrompt("one two three"), names=True)


async def test_special_tokens_can_be_left_out(tokenising: Tokenising) -> None:
    body = (await tokenising(prompt="one", add_special_tokens=False)).json()
    assert body == {"count": 1, "max_model_len": 128, "tokens": [3], "token_strs": None}
    assert not tokenising.prompt.add_special_tokens


async def test_a_conversation_is_tokenised_as_a_chat_completion_writes_it(tokenising: Tokenising) -> None:
    tools = [{"type": "function", "function": {"name": "sum", "parameters": {"type": "object"}}}]
    messages = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "It is"}]
    options: dict[str, Any] = {"continue_final_message": True, "chat_template_kwargs": {"thinking": False}}
    response = await tokenising(messages=messages, tools=tools, **options)
    assert response.json()["tokens"] == [2, 2]
    source = tokenising.prompt.source
    assert isinstance(source, ChatPrompt)
    assert source.messages == messages
    assert source.tools == tools
    assert source.template_kwargs == {"thinking": False}
    assert (source.continue_final_message, source.add_generation_prompt) == (True, False)


async def test_a_prompt_longer_than_the_context_is_counted(tokenising: Tokenising) -> None:
    assert (await tokenising(prompt="word " * 5000)).json()["count"] == 5000


@pytest.mark.parametrize("path", ["/v1/detokenize", "/detokenize"])
async def test_token_ids_become_text(tokenising: Tokenising, path: str) -> None:
    response = await tokenising(path, tokens=[1, 2])
    assert response.json() == {"prompt": "x xx"}
    assert tokenising.prompt.source == TokenPrompt([1, 2])


async def test_it_costs_nothing_and_is_one_request_of_the_limits(tokenising: Tokenising) -> None:
    response = await tokenising(prompt="one two")
    limits = {name: value for name, value in response.headers.items() if name.startswith("x-ratelimit-remaining")}
    again = await tokenising(prompt="one two")
    assert int(again.headers["x-ratelimit-remaining-requests"]) < int(limits["x-ratelimit-remaining-requests"])
    assert again.headers["x-ratelimit-remaining-tokens"] == limits["x-ratelimit-remaining-tokens"]
    await eventually(lambda: len(tokenising.stage.receipts) == 2)
    for receipt in tokenising.stage.receipts:
        assert (receipt.usage, receipt.outcome) == (Usage(prompt_tokens=0), Outcome.FINISHED)


async def test_it_does_not_wait_behind_generations(tokenising: Tokenising) -> None:
    tokenising.worker.script = lambda worker, job: (
        tokenise(worker, job) if isinstance(job.prompt, TokenisationPrompt) else never(worker, job)
    )
    body = {"model": TOKENISER, "messages": HI}
    async with asyncio.TaskGroup() as group:
        chats = [group.create_task(tokenising.stage.client.post("/v1/chat/completions", json=body)) for _ in range(20)]
        await eventually(lambda: tokenising.stage.gateway.publish_queue.waiting > 0)  # all slots are taken
        assert (await tokenising(prompt="one")).json()["count"] == 1
        assert tokenising.worker.jobs[-1].service_class is ServiceClass.PRIORITY
        assert not any(chat.done() for chat in chats)
        for chat in chats:
            chat.cancel()


async def test_answer_lengths_are_not_learned_from_it(tokenising: Tokenising) -> None:
    await tokenising(prompt="one")
    assert tokenising.stage.gateway.queues._answer_tokens == {}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "prompt"),
        ({"prompt": "a", "messages": HI}, "prompt"),
        ({"prompt": "a", "tools": []}, "tools"),
        ({"messages": HI, "add_special_tokens": True}, "add_special_tokens"),
        ({"messages": HI, "chat_template": "{{ messages }}"}, "chat_template"),
        ({"messages": HI, "continue_final_message": True}, "continue_final_message"),
        ({"messages": HI, "chat_template_kwargs": {"tools": 1}}, "chat_template_kwargs"),
        ({"messages": [{"role": "tool", "content": "4", "tool_call_id": "a"}]}, "messages"),
        ({"prompt": "a", "model": MODEL}, "model"),
    ],
)
async def test_the_field_at_fault_is_named(tokenising: Tokenising, fields: Any, param: str) -> None:
    response = await tokenising(**fields)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param


async def test_a_workers_refusal_reaches_the_client(tokenising: Tokenising) -> None:
    tokenising.worker.script = fail("invalid_prompt", "No template.")  # type: ignore[arg-type]
    response = await tokenising(messages=HI)
    assert (response.status_code, response.json()["error"]["message"]) == (400, "No template.")


async def test_models_say_whether_they_tokenise(tokenising: Tokenising) -> None:
    models = {each["id"]: each for each in (await tokenising.stage.client.get("/v1/models")).json()["data"]}
    assert models[TOKENISER]["tokenize"] is True
    assert "tokenize" not in models[MODEL]
    tokenising.worker.bus.send_status(status(TOKENISER, "worker-3"))  # an older worker beside
    await eventually(lambda: not tokenising.stage.gateway.models.find(TOKENISER).tokenises)  # type: ignore[union-attr]
    assert (await tokenising(prompt="a")).status_code == 400


async def test_other_routes_count_the_tokens_of_a_chat_completion(tokenising: Tokenising) -> None:
    scope = {"type": "http", "app": tokenising.stage.app, "server": ("gateway", 80), "path": "/", "headers": []}

    async def connected() -> Any:
        await asyncio.Event().wait()

    request = Request(scope, connected)
    caller = Principal("key-1", "tenant-1", "salt-1")
    await rate_limits.enter(request, caller)
    url = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    content = [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": url}}]
    body = ChatCompletionRequest.parse(
        {"model": TOKENISER, "messages": [{"role": "user", "content": content}, {"role": "user", "content": "a b c"}]}
    )
    assert await count_prompt_tokens(request, tokenising.stage.gateway, caller, body) == 3
    source = tokenising.prompt.source
    assert isinstance(source, ChatPrompt)
    assert tokenising.prompt.count_only
    assert source.images == [PIXEL]
    rate_limits.leave(scope)


async def test_the_prompt_of_an_anthropic_message_is_counted(tokenising: Tokenising) -> None:
    response = await tokenising("/v1/messages/count_tokens", messages=HI, system="Be brief.")
    assert response.status_code == 200, response.text
    assert response.json() == {"input_tokens": (await tokenising(messages=[SYSTEM, *HI])).json()["count"]}
    refused = await tokenising("/v1/messages/count_tokens", messages=[])
    assert (refused.status_code, refused.json()["error"]["type"]) == (400, "invalid_request_error")
