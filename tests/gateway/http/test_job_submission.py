"""Submission of an HTTP request's jobs: a client that disconnects abandons them, also while its files are read."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from documents.parsing.parser import DocumentParser
from stored_objects.objects.objects import StoredObjects
from tests.documents.parsing.files import Text, pdf
from tests.fakes.scripted_worker import png, start_and_wait, status
from tests.gateway.conftest import KEY, MODEL, Serve, eventually, reset


@pytest.mark.parametrize("stream", [False, True])
async def test_jobs_are_cancelled_when_their_client_disconnects(serve: Serve, stream: bool) -> None:
    server = await serve(start_and_wait)
    _, writer = await server.post(stream=stream)
    await eventually(lambda: bool(server.stage.worker.jobs))
    (job,) = server.stage.worker.jobs
    reset(writer)
    async with asyncio.timeout(10):
        await server.stage.worker.cancel_of(job.id).wait()


class Stuck:
    """A reader of files that never ends, and notes that it was cancelled."""

    def __init__(self) -> None:
        self.reached, self.cancelled = asyncio.Event(), asyncio.Event()

    async def wait(self) -> None:
        self.reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()

    async def parse(self, *_arguments: Any, **_options: Any) -> None:
        """In place of `DocumentParser.parse`."""
        await self.wait()

    async def stream(self, *_arguments: Any) -> Any:
        """In place of `StoredObjects.stream`."""
        await self.wait()
        yield b""


PDF = base64.b64encode(pdf([Text("A frog.", 72, 700)])).decode()
INLINE = {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}


@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"background": True}], ids=["whole", "stream", "background"])
@pytest.mark.parametrize("kind", ["inline", "input_file", "input_image"])
async def test_a_client_that_leaves_while_its_files_are_read_leaves_nothing(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, kind: str, fields: dict[str, Any]
) -> None:
    server = await serve()
    server.stage.worker.bus.send_status(status(MODEL, reads_images=True))
    find = server.stage.gateway.models.find
    await eventually(lambda: all(each is not None and each.reads_images for each in [find(MODEL)]))
    stuck, part = Stuck(), INLINE
    if kind == "inline":
        monkeypatch.setattr(DocumentParser, "parse", stuck.parse)
    else:
        form = {"purpose": "vision" if kind == "input_image" else "assistants"}
        uploaded = await server.stage.client.post("/v1/files", data=form, files={"file": ("a.png", png(0))})
        part = {"type": kind, "file_id": uploaded.json()["id"]}
        monkeypatch.setattr(StoredObjects, "stream", stuck.stream)
    before = asyncio.all_tasks()
    body = {"model": MODEL, "input": [{"role": "user", "content": [part]}], **fields}
    content = json.dumps(body).encode()
    _, writer = await server.connect()
    writer.write(
        f"POST /v1/responses HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n".encode()
        + content
    )
    await asyncio.wait_for(stuck.reached.wait(), 30)
    reset(writer)
    await asyncio.wait_for(stuck.cancelled.wait(), 30)
    await eventually(lambda: asyncio.all_tasks() <= before)
    stage = server.stage
    assert (stage.billing.held, stage.receipts, stage.worker.jobs) == ({}, [], [])
    assert not await stage.gateway.background.runs.abandoned(2e9, 5)
    assert (await stage.chat()).status_code == 200
