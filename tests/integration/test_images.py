"""Images from end to end: OpenAI's client, gateway, RabbitMQ, workers as processes, of which one is killed."""

from __future__ import annotations

import asyncio
import base64
import io
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from PIL import Image

from router.messages import Outcome, Usage
from tests.gateway.conftest import eventually
from tests.integration.worker_processes import worker_processes

MODEL = "painter"
SIZE = "64x64"
STEPS = 40

pytestmark = pytest.mark.rabbitmq


SETTINGS = {"HEADRACE_DTYPE": "float32", "HEADRACE_IMAGE_STEPS": str(STEPS), "HEADRACE_IMAGE_SIZES": f"{SIZE},64x32"}


async def draw(client: AsyncOpenAI, prompt: str = "a cat", **fields: Any) -> list[bytes]:
    answer = await client.images.generate(model=MODEL, prompt=prompt, response_format="b64_json", **fields)
    return [base64.b64decode(each.b64_json or "") for each in answer.data or []]


async def test_a_killed_workers_images_come_once_from_another_and_are_billed_once(
    rabbitmq_url: str, pipeline_folder: Path
) -> None:
    async with worker_processes(rabbitmq_url, pipeline_folder, MODEL, SETTINGS) as drawn:
        for name in ("worker-1", "worker-2"):
            await drawn.start_worker(name)
        seeded: dict[str, Any] = {"n": 3, "size": SIZE, "extra_body": {"seed": 7}}
        request = asyncio.create_task(draw(drawn.client, **seeded))
        killed = await drawn.worker_amid_job(3)
        drawn.kill(killed)
        images = await request
        assert [Image.open(io.BytesIO(each)).size for each in images] == [(64, 64)] * 3
        assert len(set(images)) == 3
        await eventually(lambda: len(drawn.receipts()) == len(drawn.records()) == 1)
        used = Usage(prompt_tokens=0, units={SIZE: 3})
        assert [(each.usage, each.outcome) for each in drawn.receipts()] == [(used, Outcome.FINISHED)]
        assert [(each.usage, each.worker == killed) for each in drawn.records()] == [(used, False)]

        assert await draw(drawn.client, **seeded) == images, "the same seed draws the same images"
        assert images[0] != (await draw(drawn.client, size=SIZE))[0]

        with pytest.raises(openai.BadRequestError, match="up to 16 tokens") as refused:
            await draw(drawn.client, "a long prompt that would be cut off")
        assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "prompt")
        listed = [model.to_dict() async for model in drawn.client.models.list()]
        assert [(each["task"], each["image_sizes"]) for each in listed] == [("image", [SIZE, "64x32"])]

        left = asyncio.create_task(draw(drawn.client, n=10, size=SIZE))
        await drawn.worker_amid_job(10)
        left.cancel()
        await eventually(lambda: drawn.records()[-1].outcome is Outcome.CANCELLED)
        async with asyncio.timeout(20):
            assert len(await draw(drawn.client, size="64x32")) == 1, "the worker is free after one step"
