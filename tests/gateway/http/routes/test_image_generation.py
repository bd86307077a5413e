"""The tool `image_generation` of `/v1/responses`: an assistant's images as output items, for OpenAI's client."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import openai
import pytest

from router.messages import ChatPrompt, FailureCode, ImagePrompt, Usage, UsagePart
from tests.fakes.scripted_worker import Script, draw, fail, png
from tests.fakes.tool_installation import ToolInstallation, tool_installation
from tests.gateway.conftest import MODEL, Serve, Served, eventually

TOOL: Any = {"type": "image_generation"}
DRAW: Any = {"model": "assistant", "input": "a cat in a hat", "tools": [TOOL], "tool_choice": TOOL}

Install = Callable[..., Awaitable[tuple[Served, ToolInstallation]]]


@pytest.fixture
async def install(serve: Serve, tmp_path: Path) -> AsyncIterator[Install]:
    """A served gateway with an assistant that draws."""
    async with AsyncExitStack() as stack:

        async def start(script: Script = draw) -> tuple[Served, ToolInstallation]:
            served = await serve()
            gateway = served.stage.gateway
            started = tool_installation(served.stage.broker, gateway.objects, tmp_path, script=script)
            installation = await stack.enter_async_context(started)
            await eventually(lambda: (model := gateway.models.find("assistant")) is not None and len(model.tools) == 5)
            return served, installation

        yield start


async def test_an_image_is_an_output_item_that_is_stored_and_billed_as_images_are(install: Install) -> None:
    served, installation = await install()
    response = await served.client.responses.create(**DRAW)
    (image,) = response.output
    assert image.type == "image_generation_call"
    assert (image.id[:3], image.status) == ("ig_", "completed")
    assert base64.b64decode(image.result or "") == png(0)
    assert (await served.client.responses.retrieve(response.id)).output == response.output
    (job,) = installation.painter.jobs
    assert job.prompt == ImagePrompt(prompt="a cat in a hat", size="64x64")
    receipt = await served.stage.receipt()
    assert sorted(receipt.parts, key=str) == [
        UsagePart(model="painter", usage=Usage(prompt_tokens=0, units={"64x64": 1})),
        UsagePart(model="tool.image", usage=Usage(prompt_tokens=0, units={"call": 1})),
    ]
    assert receipt.usage == Usage(prompt_tokens=0)


async def test_events_of_an_image(install: Install) -> None:
    served, _ = await install()
    stream = await served.client.responses.create(**DRAW, stream=True)
    events = [event async for event in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    names = [event.type.removeprefix("response.") for event in events]
    assert [name for name in names if name != "step"] == [
        *("created", "in_progress", "output_item.added"),
        *(f"image_generation_call.{state}" for state in ("in_progress", "generating", "completed")),
        *("output_item.done", "completed"),
    ]


async def test_a_background_response_has_its_images_for_all_readers(install: Install) -> None:
    served, _ = await install()
    begun = await served.client.responses.create(**DRAW, background=True)
    stream = await served.client.responses.retrieve(begun.id, stream=True)
    done = [event.item async for event in stream if event.type == "response.output_item.done"]
    stored = await served.client.responses.retrieve(begun.id)
    assert (stored.status, stored.output) == ("completed", done)
    assert base64.b64decode(done[0].result or "") == png(0)  # type: ignore[union-attr]


async def test_a_response_with_an_image_is_continued_as_without_it(install: Install) -> None:
    served, _ = await install()
    first = await served.client.responses.create(**DRAW)
    continued: Any = {"model": MODEL, "input": "And a dog?"}
    await served.client.responses.create(**continued, previous_response_id=first.id)
    sent_back = [item.model_dump(exclude_none=True) for item in first.output]
    await served.client.responses.create(model=MODEL, input=[*DRAWN_BEFORE, *sent_back, *ASKED_AGAIN])
    for job in served.stage.worker.jobs:
        assert isinstance(job.prompt, ChatPrompt)
        assert [(each["role"], each["content"]) for each in job.prompt.messages] == [
            ("user", "a cat in a hat"),
            ("assistant", ""),
            ("user", "And a dog?"),
        ]
    assert len(served.stage.worker.jobs) == 2


DRAWN_BEFORE: Any = [{"role": "user", "content": "a cat in a hat"}]
ASKED_AGAIN: Any = [{"role": "user", "content": "And a dog?"}]


async def test_an_image_that_fails_is_a_failed_item_and_costs_nothing(install: Install) -> None:
    served, _ = await install(fail(FailureCode.INVALID_PROMPT))
    response = await served.client.responses.create(**DRAW)
    (image, *_) = response.output
    assert image.type == "image_generation_call"
    assert (image.status, image.result) == ("failed", None)
    assert (await served.stage.receipt()).parts == []


async def test_models_that_can_not_draw_refuse_the_tool(serve: Serve) -> None:
    served = await serve()
    for extra in ({}, {"background": True}, {"stream": True}):
        with pytest.raises(openai.BadRequestError) as refused:
            await served.client.responses.create(**{**DRAW, "model": MODEL, **extra})
        assert (refused.value.param, refused.value.code) == ("tools[0].type", "unsupported_parameter")
    assert served.stage.billing.held == {}
