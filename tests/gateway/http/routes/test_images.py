"""`/v1/images/generations`: one job per request, one PNG file per image, in order."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from auth_billing.rate_limits.limits import Limits, model_subject
from gateway.openai.images import ImageList
from router.bus import Bus
from router.messages import Drawn, FailureCode, Finished, ImagePrompt, Job, Usage
from router.transport.memory import MemoryTransport
from stored_objects.errors import BlobsUnavailable
from tests.fakes.scripted_worker import ScriptedWorker, draw, fail, never, png
from tests.gateway.conftest import KEY, MODEL, SetStage, Stage, eventually

PAINTER = "org/painter"
SIZES = ("512x512", "512x256")


@dataclass
class Drawing:
    """A stage with a worker that draws beside the one that generates."""

    stage: Stage
    worker: ScriptedWorker

    async def __call__(self, prompt: Any = "A lighthouse", **fields: Any) -> httpx.Response:
        body = {"model": PAINTER, "prompt": prompt, **fields}
        return await self.stage.client.post("/v1/images/generations", json=body)


@pytest.fixture
async def drawing(set_stage: SetStage) -> AsyncIterator[Drawing]:
    stage = await set_stage()
    async with AsyncExitStack() as stack:
        bus = Bus(MemoryTransport(stage.broker, "worker-2"))
        await bus.start()
        stack.push_async_callback(bus.close)
        worker = ScriptedWorker(bus, PAINTER, draw, "worker-2", image_sizes=SIZES)
        await stack.enter_async_context(worker.running())
        await eventually(lambda: stage.gateway.models.find(PAINTER) is not None)
        yield Drawing(stage, worker)


async def test_images_are_returned_in_order(drawing: Drawing) -> None:
    response = await drawing(n=3, size="512x256", seed=-1, user="user-1", quality="auto", background="opaque")
    assert response.status_code == 200
    answer = ImageList.model_validate(response.json())
    assert [base64.b64decode(each.b64_json or "") for each in answer.data] == [png(0), png(1), png(2)]
    assert (answer.size, answer.output_format) == ("512x256", "png")
    (job,) = drawing.worker.jobs
    assert job.prompt == ImagePrompt(prompt="A lighthouse", size="512x256")
    assert (job.n, job.sampling.seed) == (3, 2**63 - 1)


@pytest.mark.parametrize("fields", [{}, {"size": "auto"}, {"size": None, "n": None, "response_format": None}])
async def test_the_models_first_size_is_the_default(drawing: Drawing, fields: dict[str, Any]) -> None:
    answer = (await drawing(**fields)).json()
    assert answer["size"] == SIZES[0]
    assert answer["data"] == [{"b64_json": base64.b64encode(png(0)).decode()}]


async def test_the_stock_client_draws(drawing: Drawing) -> None:
    http: Any = drawing.stage.client  # httpx's: the SDK declares httpx2's, and takes both
    async with AsyncOpenAI(api_key=KEY, base_url="http://gateway/v1", http_client=http) as client:
        answer = await client.images.generate(
            model=PAINTER, prompt="A lighthouse", n=2, size="512x512", response_format="b64_json"
        )
        assert [base64.b64decode(each.b64_json or "") for each in answer.data or []] == [png(0), png(1)]
        with pytest.raises(openai.BadRequestError) as refused:
            await client.images.edit(model=PAINTER, prompt="A lighthouse", image=b"png")
        assert refused.value.code == "unsupported_endpoint"


async def test_urls_lead_to_the_stored_images_without_a_key(drawing: Drawing) -> None:
    data = (await drawing(n=2, response_format="url")).json()["data"]
    assert [list(each) for each in data] == [["url"], ["url"]]
    urls = [each["url"] for each in data]
    for index, url in enumerate(urls):
        assert url.startswith("http://gateway/v1/blobs/blob_")
        found = await drawing.stage.client.get(url, headers={"authorization": ""})
        assert (found.status_code, found.headers["content-type"], found.content) == (200, "image/png", png(index))
    forged = await drawing.stage.client.get(urls[0][:-1] + ("0" if urls[0][-1] != "0" else "1"))
    assert forged.status_code == 403


async def test_an_exceeded_quota_cancels_the_job_which_costs_nothing(
    drawing: Drawing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing.stage.gateway.objects.quotas, "per_owner", 1000)
    drawing.worker.script = never
    response = await drawing(response_format="url")
    assert (response.status_code, response.json()["error"]["code"]) == (429, "insufficient_quota")
    await eventually(lambda: len(drawing.stage.receipts) == 1)
    assert drawing.stage.receipts[0].usage == Usage(prompt_tokens=0)


async def test_an_image_that_can_not_be_stored_is_returned_itself(
    drawing: Drawing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail_to_put(*_arguments: Any, **_options: Any) -> None:
        raise BlobsUnavailable("the disk is full")

    monkeypatch.setattr(drawing.stage.gateway.objects, "put", fail_to_put)
    response = await drawing(response_format="url")
    assert response.json()["data"] == [{"b64_json": base64.b64encode(png(0)).decode()}]


async def test_variations_are_refused(drawing: Drawing) -> None:
    response = await drawing.stage.client.post("/v1/images/variations", files={"image": b"png"})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "unsupported_endpoint")


async def test_the_images_are_billed_by_size(drawing: Drawing) -> None:
    await drawing(n=2, size="512x256")
    await eventually(lambda: len(drawing.stage.receipts) == 1)
    (receipt,) = drawing.stage.receipts
    assert receipt.usage == Usage(prompt_tokens=0, units={"512x256": 2})


async def leave(drawing: Drawing) -> None:
    """Leave a request once a worker has its job, and wait until its hold is settled."""
    jobs = len(drawing.worker.jobs)
    request = asyncio.create_task(drawing())
    await eventually(lambda: len(drawing.worker.jobs) > jobs)
    request.cancel()
    await asyncio.wait([request])
    await eventually(drawing.stage.is_settled)


async def test_images_that_a_client_leaves_are_free_and_bounded_by_the_limit_on_requests(drawing: Drawing) -> None:
    drawing.worker.script = never
    await drawing.stage.gateway.limits.book.change(model_subject("project-1", PAINTER), Limits(requests_per_minute=3))
    for _ in range(3):
        await leave(drawing)
    assert all(receipt.usage == Usage(prompt_tokens=0) for receipt in drawing.stage.receipts)
    drawing.worker.script = draw
    refused = [await drawing() for _ in range(20)]
    assert {each.status_code for each in refused} == {429}
    assert len(drawing.worker.jobs) == 3


async def test_a_prompt_that_was_revised_is_reported(drawing: Drawing) -> None:
    async def revise(worker: ScriptedWorker, job: Job) -> None:
        drawn = Drawn(job_id=job.id, attempt_id="a", start=0, images=[b"png"], revised_prompt='A "tall" lighthouse')
        worker.send(job, drawn, Finished(job_id=job.id, attempt_id="a", usage=Usage(prompt_tokens=0)))

    drawing.worker.script = revise
    (image,) = (await drawing()).json()["data"]
    assert image["revised_prompt"] == 'A "tall" lighthouse'


@pytest.mark.parametrize(
    ("param", "value"),
    [
        *(("prompt", bad) for bad in ("", None, 5, ["a"], "a" * 32_001)),
        *(("n", bad) for bad in (0, 11, -1, 1.5, "2", True)),
        *(("size", bad) for bad in ("1x1", "512", "x", 512, "512x512x512", "0x0")),
        *(("response_format", bad) for bad in ("png", 1)),
        *(("quality", bad) for bad in ("hd", "high", 1)),
        *(("style", bad) for bad in ("vivid", "natural")),
        ("background", "transparent"),
        ("output_format", "webp"),
        ("output_compression", 50),
        ("stream", True),
        ("partial_images", 2),
        ("moderation", "low"),
        ("negative_prompt", "text"),
        ("seed", "7"),
        *(("model", bad) for bad in ("", 5, None, MODEL)),
    ],
)
async def test_refusals(drawing: Drawing, param: str, value: Any) -> None:
    """400, naming the field, without a worker."""
    response = await drawing(**{param: value})
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert drawing.worker.jobs == drawing.stage.worker.jobs == []


async def test_the_refused_size_and_task_are_explained(drawing: Drawing) -> None:
    assert "512x512, 512x256" in (await drawing(size="64x64")).json()["error"]["message"]
    assert "/v1/chat/completions" in (await drawing(model=MODEL)).json()["error"]["message"]
    body = {"model": PAINTER, "messages": [{"role": "user", "content": "hi"}]}
    refused = await drawing.stage.client.post("/v1/chat/completions", json=body)
    assert (refused.status_code, "/v1/images/generations" in refused.json()["error"]["message"]) == (400, True)


async def test_a_failure_of_the_worker_costs_nothing(drawing: Drawing) -> None:
    drawing.worker.script = fail(FailureCode.INVALID_PROMPT, "Too long.")
    response = await drawing(n=2)
    assert (response.status_code, response.json()["error"]["message"]) == (400, "Too long.")
    await eventually(lambda: len(drawing.stage.receipts) == 1)
    assert drawing.stage.receipts[0].usage == Usage(prompt_tokens=0)


async def test_a_request_without_a_key_is_refused(drawing: Drawing) -> None:
    for path in ("generations", "edits", "variations"):
        response = await drawing.stage.client.post(f"/v1/images/{path}", headers={"authorization": ""})
        assert response.status_code == 401


async def test_the_model_is_listed_with_its_sizes(drawing: Drawing) -> None:
    listed = (await drawing.stage.client.get(f"/v1/models/{PAINTER}")).json()
    assert (listed["task"], listed["image_sizes"]) == ("image", list(SIZES))
    assert "image_sizes" not in (await drawing.stage.client.get(f"/v1/models/{MODEL}")).json()
