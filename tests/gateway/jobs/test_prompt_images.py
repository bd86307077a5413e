"""Images of chat completions: data URLs and own addresses become files of the job, everything else is refused."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from PIL import Image

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import PROJECT_SCOPES, Scope
from gateway.jobs import prompt_images
from router.bus import Bus
from router.messages import ChatPrompt
from router.transport.memory import MemoryTransport
from stored_objects.blobs.blobs import new_blob_id
from stored_objects.objects.records import ObjectKind, ObjectOwner
from tests.fakes.scripted_worker import ScriptedWorker, count
from tests.gateway.conftest import MODEL, SetStage, Stage, eventually

SEEING = "org/seeing"
OWNER = ObjectOwner("tenant-1", "user-1")


def image(format_: str = "PNG", size: tuple[int, int] = (40, 30)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, (10, 200, 30)).save(file, format_)
    return file.getvalue()


PNG = image()


def data_url(file: bytes = PNG, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(file).decode()}"


@dataclass
class Seeing:
    """A stage with a worker that reads images beside the one that does not."""

    stage: Stage
    worker: ScriptedWorker

    async def __call__(self, *urls: str, model: str = SEEING, **fields: Any) -> httpx.Response:
        parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        messages = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, *parts]}]
        body = {"model": model, "messages": messages, "max_tokens": 2, **fields}
        return await self.stage.client.post("/v1/chat/completions", json=body)

    async def refused(self, *urls: str, param: str = "messages[0].content[1].image_url.url", **fields: Any) -> str:
        response = await self(*urls, **fields)
        error = response.json()["error"]
        assert (response.status_code, error["param"]) == (400, param)
        assert not self.worker.jobs
        message: str = error["message"]
        return message

    async def stored(self, owner: ObjectOwner = OWNER, file: bytes = PNG) -> str:
        """Store an image and return its id."""
        objects = self.stage.gateway.objects
        return (await objects.put(owner, file, kind=ObjectKind.IMAGE, media_type="image/png")).id


@pytest.fixture
async def seeing(set_stage: SetStage) -> AsyncIterator[Seeing]:
    stage = await set_stage()
    async with AsyncExitStack() as stack:
        bus = Bus(MemoryTransport(stage.broker, "worker-2"))
        await bus.start()
        stack.push_async_callback(bus.close)
        worker = ScriptedWorker(bus, SEEING, count, "worker-2", reads_images=True)
        await stack.enter_async_context(worker.running())
        await eventually(lambda: stage.gateway.models.find(SEEING) is not None)
        yield Seeing(stage, worker)


async def test_data_urls_and_own_addresses_become_files_of_the_job(seeing: Seeing) -> None:
    addresses = seeing.stage.gateway.addresses
    stored = image("WEBP")
    path = addresses.address(await seeing.stored(file=stored))
    whole = addresses.address(await seeing.stored(file=image("GIF")), str(seeing.stage.client.base_url).rstrip("/"))
    response = await seeing(data_url(), data_url(image("JPEG"), "image/jpeg"), path, whole)
    assert response.status_code == 200, response.text
    (job,) = seeing.worker.jobs
    assert isinstance(job.prompt, ChatPrompt)
    assert job.prompt.images == [PNG, image("JPEG"), stored, image("GIF")]
    assert job.prompt.messages[0]["content"] == [{"type": "text", "text": "What is this?"}, *[{"type": "image"}] * 4]


async def test_a_model_that_reads_no_images_refuses_them_by_name_and_the_list_says_which_does(seeing: Seeing) -> None:
    message = await seeing.refused(data_url(), model=MODEL, param="messages[0].content[1].image_url")
    assert message == f"Invalid 'messages[0].content[1].image_url': the model '{MODEL}' reads no images."
    listed = (await seeing.stage.client.get("/v1/models")).json()["data"]
    assert {each["id"]: each["input_modalities"] for each in listed} == {SEEING: ["text", "image"], MODEL: ["text"]}


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/cat.png",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "//example.org/v1/blobs/x",
        "https://example.org/v1/blobs/x?expires=1&signature=0",
        "data:text/html;base64,AA==",
        "data:image/png,AA",
        "http://[",
        "\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
    ],
)
async def test_nothing_is_fetched_from_other_addresses(seeing: Seeing, url: str) -> None:
    assert "must be a data URL" in await seeing.refused(url)


async def test_addresses_that_are_forged_expired_or_of_another_tenant_are_refused(
    seeing: Seeing, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses, id_ = seeing.stage.gateway.addresses, await seeing.stored()
    assert "no such image" in await seeing.refused(addresses.address(id_)[:-1] + "x")
    assert "no such image" in await seeing.refused(f"/v1/blobs/{id_}")
    assert "no such image" in await seeing.refused(addresses.address(new_blob_id()))
    foreign = await seeing.stored(ObjectOwner("tenant-2", "user-1"))
    assert "no such image" in await seeing.refused(addresses.address(foreign))
    expired = addresses.address(id_)
    monkeypatch.setattr(addresses, "_clock", lambda: 1e12)
    assert "expired" in await seeing.refused(expired)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("data:image/png;base64,????", "base64"),
        (data_url(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"), "PNG, JPEG, WebP or GIF"),
        (data_url(b""), "PNG, JPEG, WebP or GIF"),
        (data_url(PNG[:16] + (60_000).to_bytes(4, "big") * 2 + PNG[24:]), "60000 x 60000 pixels"),
    ],
)
async def test_images_are_checked_by_their_headers(seeing: Seeing, url: str, reason: str) -> None:
    assert reason in await seeing.refused(url)


async def test_number_bytes_and_pixels_of_all_images_are_limited(
    seeing: Seeing, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "16 images" in await seeing.refused(*[data_url()] * 17, param="messages")
    second = "messages[0].content[2].image_url"
    monkeypatch.setattr(prompt_images, "MAX_TOTAL_PIXELS", 1500)
    assert "1500 pixels" in await seeing.refused(data_url(), data_url(), param=f"{second}.url")
    monkeypatch.setattr(prompt_images, "MAX_TOTAL_BYTES", len(PNG) + 1)
    assert f"{len(PNG) + 1} bytes" in await seeing.refused(data_url(), data_url(), param=f"{second}.url")
    large = seeing.stage.gateway.addresses.address(await seeing.stored(file=PNG + bytes(2)))
    assert "larger than" in await seeing.refused(large)


async def test_a_repeated_request_with_a_key_and_images_is_answered_once_and_another_image_conflicts(
    seeing: Seeing,
) -> None:
    async def keyed(url: str) -> httpx.Response:
        content = [{"type": "image_url", "image_url": {"url": url}}]
        body = json.dumps({"model": SEEING, "messages": [{"role": "user", "content": content}], "max_tokens": 2})
        headers = {"idempotency-key": "k", "content-type": "application/json"}
        return await seeing.stage.client.post("/v1/chat/completions", content=body, headers=headers)

    first, again = await keyed(data_url()), await keyed(data_url())
    assert (first.status_code, first.content) == (200, again.content)
    assert len(seeing.worker.jobs) == 1
    assert (await keyed(data_url(image("JPEG")))).status_code != 200


async def test_a_file_of_the_project_is_read_by_its_id(seeing: Seeing) -> None:
    client = seeing.stage.client
    created = await client.post("/v1/files", data={"purpose": "vision"}, files={"file": ("x.png", PNG)})
    id = created.json()["id"]
    assert (await seeing(id)).status_code == 200
    (job,) = seeing.worker.jobs
    assert isinstance(job.prompt, ChatPrompt)
    assert [bytes(each) for each in job.prompt.images] == [PNG]


async def test_a_file_of_the_project_needs_the_scope_of_files(seeing: Seeing) -> None:
    stage, scopes = seeing.stage, PROJECT_SCOPES - {Scope.FILES}
    created = await stage.client.post("/v1/files", data={"purpose": "vision"}, files={"file": ("x.png", PNG)})
    stage.accounts.added["hr_live_chat"] = Principal("key-4", "tenant-1", "salt-1", project="project-1", scopes=scopes)
    stage.client.headers["authorization"] = "Bearer hr_live_chat"
    answer = await seeing(created.json()["id"])
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "missing_scope")
    assert (await seeing(data_url())).status_code == 200
    assert len(seeing.worker.jobs) == 1


@pytest.mark.parametrize("owner", [ObjectOwner.of_project("tenant-2", "project-1"), ObjectOwner("tenant-1", "key-1")])
async def test_files_of_other_projects_are_not_found(seeing: Seeing, owner: ObjectOwner) -> None:
    stored = (await seeing.stored(owner)).removeprefix("blob_")
    for id in (f"file-{stored}", "file-", "file-../x"):
        assert "there is no such file" in await seeing.refused(id)
