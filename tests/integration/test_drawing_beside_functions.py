"""The tool `image_generation` with `tool_choice: "auto"` beside the client's functions, over RabbitMQ.

An assistant whose model is scripted decides: it draws, calls the client's function, answers by text, or draws first and
calls then.
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import openai
import pytest

from auth_billing.prices.price_book import PriceBook
from auth_billing.prices.pricing import TokenRate
from auth_billing.store.prices import MongoPriceStore
from router.messages import ChatPrompt, Delta, Finished, ImagePrompt, Job, ServiceClass, ToolCallDelta
from router.transport.rabbitmq import RabbitMQTransport
from tests.contract.examples import msgspec_replace
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.paying_platform import PayingPlatform
from tests.fakes.scripted_worker import ScriptedWorker, png, prompt_text, usage
from tests.fakes.tool_installation import ToolInstallation, tool_installation

pytestmark = [pytest.mark.rabbitmq, pytest.mark.store, pytest.mark.timeout(300)]

IMAGE: Any = {"type": "image_generation"}
WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
SHOUT: Any = {"type": "custom", "name": "shout"}


async def decide(worker: ScriptedWorker, job: Job) -> None:
    """Call what the last message names and the job offers, once each; else say two words."""
    assert isinstance(job.prompt, ChatPrompt)
    offered = [each["function"]["name"] for each in job.prompt.tools or ()]
    asked, drawn = prompt_text(job), "blob" in str(job.prompt.messages) or "64x64" in str(job.prompt.messages)
    calls = []
    if "draw" in asked and "image" in offered and not drawn and "weather first" not in asked:
        calls = [("image", '{"prompt": "a heron"}')]
    elif "weather" in asked and "weather" in offered:
        calls = [("weather", '{"city": "Gdynia"}')]
    elif "shout" in asked and "shout" in offered:
        calls = [("shout", '{"input": "hey"}')]
    attempt = uuid.uuid4().hex
    worker.begin(job, attempt)
    first = Delta(job_id=job.id, attempt_id=attempt, start=0, token_ids=[0])
    parts: list[dict[str, Any]] = [{"text": "Well "}, {"text": "then."}]
    if calls:
        ((name, arguments),) = calls
        call = ToolCallDelta(index=0, id="call_a", name=name, arguments=arguments[:5])
        parts = [{"tool_calls": [call]}, {"tool_calls": [ToolCallDelta(index=0, arguments=arguments[5:])]}]
    for position, fields in enumerate(parts):
        last = None if position == 0 else "tool_calls" if calls else "stop"
        worker.send(job, msgspec_replace(first, start=position, token_ids=[position], finish_reason=last, **fields))
    worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, len(parts))))


@asynccontextmanager
async def drawing(
    url: str, database_url: str, folder: Path, way: str
) -> AsyncIterator[tuple[PayingPlatform, openai.AsyncOpenAI, ToolInstallation]]:
    transport = partial(RabbitMQTransport, url, publish_timeout=10)
    async with PayingPlatform(transport, database_url, folder) as platform:
        await platform.start(gateways=1, workers=1, make_engine=CountingEngine)
        prices = PriceBook(MongoPriceStore(platform.connection))
        rate = TokenRate(0, 0, 0, units={"64x64": 4_000_000})
        await prices.edit("painter", dict.fromkeys(ServiceClass, rate), seen=(await prices.newest()).prices.version)
        gateway = platform.gateways[0]
        started = tool_installation(transport, gateway.objects, folder, writes=decide, way=way)
        async with started as installation, asyncio.timeout(200):
            while (model := gateway.models.find("assistant")) is None or len(model.tools) < 5:
                await asyncio.sleep(0.02)
            yield platform, platform.client(), installation


@pytest.mark.parametrize("way", ["function", "grammar"])
async def test_the_model_chooses_among_drawing_the_clients_functions_and_text(
    rabbitmq_url: str, database_url: str, tmp_path: Path, way: str
) -> None:
    async with drawing(rabbitmq_url, database_url, tmp_path, way) as (platform, client, installation):
        tools = [WEATHER, IMAGE, SHOUT]
        asked: dict[str, Any] = {"model": "assistant", "tools": tools, "tool_choice": "auto"}

        called = await client.responses.create(input="weather in Gdynia?", **asked)
        assert [each.type for each in called.output] == ["function_call"]
        call: Any = called.output[0]
        assert (call.name, call.arguments) == ("weather", '{"city": "Gdynia"}')
        assert installation.painter.jobs == []

        shouted: Any = (await client.responses.create(input="shout!", **asked)).output[0]
        assert (shouted.type, shouted.name, shouted.input) == ("custom_tool_call", "shout", "hey")

        spoken = await client.responses.create(input="hello", **asked)
        assert ([each.type for each in spoken.output], spoken.output_text) == (["message"], "Well then.")

        drawn = await client.responses.create(input="draw a heron", **asked)
        image: Any = drawn.output[0]
        assert (image.type, image.status) == ("image_generation_call", "completed")
        assert base64.b64decode(image.result) == png(0)
        (job,) = installation.painter.jobs
        assert job.prompt == ImagePrompt(prompt="a heron", size="64x64")

        # The function's output comes back, and the conversation goes on with an image.
        output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
        told = await client.responses.create(input=[output], previous_response_id=called.id, **asked)
        assert [each.type for each in told.output][-1] in ("function_call", "message")
        again = await client.responses.create(input="draw it", previous_response_id=drawn.id, **asked)
        assert again.output[0].type == "image_generation_call"

        events = [each async for each in await client.responses.create(input="draw a heron", stream=True, **asked)]
        assert [each.sequence_number for each in events] == list(range(len(events)))
        assert "response.image_generation_call.completed" in [each.type for each in events]
        assert all(getattr(each, "name", "") != "image" for each in events), "own tools are no calls of the client"

        await platform.settled()
        assert await platform.differences() == []


async def test_what_is_chosen_or_ruled_out_is_not_drawn(rabbitmq_url: str, database_url: str, tmp_path: Path) -> None:
    async with drawing(rabbitmq_url, database_url, tmp_path, "function") as (platform, client, installation):
        asked: dict[str, Any] = {"model": "assistant", "tools": [WEATHER, IMAGE], "input": "draw a heron"}
        choices: list[Any] = ["none", {"type": "function", "name": "weather"}]
        for choice in choices:
            answered = await client.responses.create(**asked, tool_choice=choice)
            assert "image_generation_call" not in [each.type for each in answered.output]
        short = await client.responses.create(**asked, max_output_tokens=20)
        assert [each.type for each in short.output] == ["message"], "a call has no room"
        assert installation.painter.jobs == []
        with pytest.raises(openai.BadRequestError) as refused:
            await client.responses.create(**asked, tool_choice="required")
        assert refused.value.param == "tool_choice"
        forced = await client.responses.create(**asked, tool_choice=IMAGE)
        assert forced.output[0].type == "image_generation_call"
        await platform.settled()
        assert await platform.differences() == []
