"""Images in prompts from end to end: OpenAI's client, gateway, RabbitMQ, two workers, of which one is killed."""

from __future__ import annotations

import asyncio
import base64
import io
from pathlib import Path
from typing import Any

import openai
import pytest
from PIL import Image

from router.messages import Outcome
from tests.fakes.tiny_vision_model import CONTEXT
from tests.gateway.conftest import eventually
from tests.integration.worker_processes import WorkerProcesses, worker_processes

MODEL = "reader"
TOKENS = 600
"""So many that the worker is killed long before the last one."""

pytestmark = [pytest.mark.rabbitmq, pytest.mark.timeout(300)]


def url(size: tuple[int, int] = (60, 40)) -> str:
    file = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert("RGB").save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def question(*urls: str) -> dict[str, Any]:
    parts: list[Any] = [{"type": "image_url", "image_url": {"url": each}} for each in urls]
    content = [{"type": "text", "text": "What is this?"}, *parts]
    fields: dict[str, Any] = {"seed": 7, "max_tokens": TOKENS, "extra_body": {"ignore_eos": True}}
    return {"model": MODEL, "messages": [{"role": "user", "content": content}], **fields}


async def running_worker(seeing: WorkerProcesses) -> str:
    """Wait until the only job's answer has begun, and return its worker."""
    async with asyncio.timeout(60):
        while True:
            for job in seeing.gateway.inbox._jobs.values():
                if job.recovery.output.extent and job.recovery.worker_id:
                    return job.recovery.worker_id
            await asyncio.sleep(0.01)


async def test_an_answer_about_an_image_goes_on_with_the_same_tokens_after_its_worker_was_killed(
    rabbitmq_url: str, vision_folder: Path
) -> None:
    async with worker_processes(rabbitmq_url, vision_folder, MODEL, {"HEADRACE_DTYPE": "float32"}) as seeing:
        await asyncio.gather(*map(seeing.start_worker, ("worker-1", "worker-2")))
        whole = await seeing.client.chat.completions.create(**question(url()))
        assert whole.usage is not None
        prompt_tokens = whole.usage.prompt_tokens
        assert 60 < prompt_tokens < 160
        assert whole.usage.completion_tokens == TOKENS

        request = asyncio.create_task(seeing.client.chat.completions.create(**question(url())))
        seeing.kill(await running_worker(seeing))
        assert (await request).choices[0].message.content == whole.choices[0].message.content
        await eventually(lambda: len(seeing.receipts()) == 2 and len(seeing.records()) == 2)
        assert {
            (each.usage.prompt_tokens, each.usage.completion_tokens, each.outcome) for each in seeing.receipts()
        } == {(prompt_tokens, TOKENS, Outcome.FINISHED)}

        damaged = f"data:image/png;base64,{base64.b64encode(base64.b64decode(url()[22:])[:60]).decode()}"
        with pytest.raises(openai.BadRequestError, match="Image 2 of the messages can't be read") as refused:
            await seeing.client.chat.completions.create(**question(url(), damaged))
        assert refused.value.param == "messages"
        with pytest.raises(openai.BadRequestError, match=f"maximum context length is {CONTEXT} tokens"):
            await seeing.client.chat.completions.create(**question(*[url()] * 12))
        listed = [model.to_dict() async for model in seeing.client.models.list()]
        assert [each["input_modalities"] for each in listed] == [["text", "image"]]
