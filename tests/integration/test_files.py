"""Files between gateway processes: uploaded to one that is killed, read from the others, in constant memory."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator

import httpx
import openai
import psutil
import pytest

from tests.chaos.installed import skip_unless_installed
from tests.chaos.stack import Size, Stack, running

pytestmark = [pytest.mark.rabbitmq, pytest.mark.store, pytest.mark.timeout(300)]

PIECE = hashlib.sha256(b"seed").digest() * 2**15  # 1 MiB
PIECES = 192
MOST_GROWTH = 48 * 2**20
"""Bytes that a gateway's memory may grow by while a file of four times the size passes through it."""


async def upload(url: str, key: str) -> str:
    """Upload `PIECES` MiB without having them in memory; return the file's id."""
    head = (
        b'--XX\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
        b'--XX\r\nContent-Disposition: form-data; name="file"; filename="large.bin"\r\n\r\n'
    )

    async def body() -> AsyncIterator[bytes]:
        yield head
        for _ in range(PIECES):
            yield PIECE
        yield b"\r\n--XX--\r\n"

    headers = {"authorization": f"Bearer {key}", "content-type": "multipart/form-data; boundary=XX"}
    async with httpx.AsyncClient(timeout=200) as client:
        response = await client.post(f"{url}/files", content=body(), headers=headers)
    assert response.status_code == 200, response.text
    id: str = response.json()["id"]
    return id


async def highest(process: psutil.Process, work: asyncio.Task[str]) -> int:
    """Return the most memory of a process while `work` runs."""
    most = 0
    while not work.done():
        most = max(most, process.memory_info().rss)
        await asyncio.sleep(0.02)
    return most


def url_of(stack: Stack, gateway: str) -> str:
    return f"http://127.0.0.1:{stack.ports[gateway]}/v1"


async def digest_of(url: str, key: str, id: str) -> str:
    digest = hashlib.sha256()
    async with (
        openai.AsyncOpenAI(base_url=url, api_key=key, timeout=200) as client,
        client.files.with_streaming_response.content(id) as response,
    ):
        async for chunk in response.iter_bytes():
            digest.update(chunk)
    return digest.hexdigest()


async def test_files_outlive_their_gateway_and_pass_in_constant_memory() -> None:
    skip_unless_installed()
    async with running(Size(gateways=2, workers=1)) as stack:
        first, second = (stack.process(name) for name in stack.gateways)
        assert first is not None
        assert second is not None
        urls = [url_of(stack, name) for name in stack.gateways]
        async with openai.AsyncOpenAI(base_url=urls[0], api_key=stack.key) as client:
            small = await client.files.create(file=("s.jsonl", b"{}\n"), purpose="batch")  # warms up
            upload_of_parts = await client.uploads.create(
                bytes=3, filename="p.bin", mime_type="text/plain", purpose="user_data"
            )
            part = await client.uploads.parts.create(upload_of_parts.id, data=b"abc")
        before = first.memory_info().rss
        uploading = asyncio.create_task(upload(urls[0], stack.key))
        assert await highest(first, uploading) - before < MOST_GROWTH
        id = await uploading
        first.kill()

        expected = hashlib.sha256()
        for _ in range(PIECES):
            expected.update(PIECE)
        await digest_of(urls[1], stack.key, small.id)
        before = second.memory_info().rss
        reading = asyncio.create_task(digest_of(urls[1], stack.key, id))
        assert await highest(second, reading) - before < MOST_GROWTH
        assert await reading == expected.hexdigest()

        await stack.supervisor[stack.gateways[0]].settled()
        async with openai.AsyncOpenAI(base_url=urls[1], api_key=stack.key) as client:
            done = await client.uploads.complete(upload_of_parts.id, part_ids=[part.id])
        assert done.file is not None
        async with openai.AsyncOpenAI(base_url=urls[0], api_key=stack.key, max_retries=8) as client:
            assert {each.id async for each in client.files.list()} == {small.id, id, done.file.id}
            assert (await client.files.content(done.file.id)).content == b"abc"
            await client.files.delete(id)
