"""The page's batches: started from a file, listed by project, cancelled, downloaded."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from auth_billing.access.roles import Role
from chat_ui.http import uploads
from stored_objects.errors import BlobsUnavailable
from stored_objects.objects.objects import StoredObjects
from stored_objects.objects.records import ObjectKind
from stored_objects.project_documents.batches import Batch, BatchError, BatchProgress, BatchState
from tests.chat_ui.chat_clients import Scene

LINE = json.dumps({"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m"}}).encode()
START = "/batches?endpoint=/v1/chat/completions&name=in.jsonl"


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


async def record(scene: Scene, id: str, **changes: object) -> Batch:
    """Change a batch as the gateway that runs it does."""
    scene.chats.batches.records[id] = replace(scene.chats.batches.records[id], **changes)  # type: ignore[arg-type]
    return scene.chats.batches.records[id]


async def test_a_person_starts_a_batch_and_the_project_follows_it(scene: Scene) -> None:
    ada, bob = await scene.person(name="ada"), await scene.person(name="bob")
    started = await ada.call("POST", START, LINE, status=201)
    assert (started["name"], started["state"], started["total"]) == ("in.jsonl", "validating", 0)
    batch = scene.chats.batches.records[started["id"]]
    assert (batch.key_id, batch.user != "", batch.endpoint) == ("", True, "/v1/chat/completions")
    assert await scene.chats.objects.get(batch.owner, batch.input_file) == LINE
    await record(
        scene,
        batch.id,
        state=BatchState.IN_PROGRESS,
        total=8,
        model="m",
        times={"in_progress": 12.5},
        progress=BatchProgress(completed=3, failed=1),
        output_file="blob_pending",
    )
    [shown] = (await bob.call("GET", "/batches"))["batches"]
    assert (shown["total"], shown["completed"], shown["failed"], shown["began"]) == (8, 3, 1, 12)
    assert (shown["model"], shown["has_output"], shown["has_errors"]) == ("m", False, False)
    other = await scene.person(Role.OWNER, "eve", "org-other")
    assert (await other.call("GET", "/batches"))["batches"] == []
    await other.call("POST", f"/batches/{batch.id}/cancel", {}, status=404)
    assert (await bob.call("POST", f"/batches/{batch.id}/cancel", {}))["state"] == "cancelling"


async def test_results_are_downloaded_once_the_batch_has_ended(scene: Scene) -> None:
    person = await scene.person()
    id = (await person.call("POST", START, LINE, status=201))["id"]
    await person.call("GET", f"/batches/{id}/output", status=404)
    owner = scene.chats.batches.records[id].owner
    stored = await scene.chats.objects.put(owner, b"{}\n", kind=ObjectKind.FILE, media_type="application/octet-stream")
    await record(scene, id, state=BatchState.COMPLETED, total=1, output_file=stored.id)
    response = await person.browser.get(f"/batches/{id}/output")
    assert (response.status_code, response.content) == (200, b"{}\n")
    assert response.headers["content-disposition"] == f'attachment; filename="{id}_output.jsonl"'
    await person.call("GET", f"/batches/{id}/errors", status=404)
    refused = await person.call("POST", f"/batches/{id}/cancel", {}, status=400)
    assert refused["error"]["message"] == "The batch has ended."


async def test_an_invalid_file_shows_its_lines(scene: Scene) -> None:
    person = await scene.person()
    id = (await person.call("POST", START, LINE, status=201))["id"]
    await record(scene, id, state=BatchState.FAILED, failures=[BatchError("x", "No JSON.", line=7)])
    [shown] = (await person.call("GET", "/batches"))["batches"]
    assert shown["problems"] == [{"line": 7, "message": "No JSON."}]


async def test_what_cannot_be_stored_is_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    person = await scene.person()
    await person.call("POST", START, b"", status=400)
    await person.call("POST", START.replace("chat/completions", "images"), LINE, status=400)
    await (await scene.person(Role.VIEWER)).call("POST", START, LINE, status=403)
    monkeypatch.setattr(uploads, "body_timeout", lambda _size: 0.0)
    await person.call("POST", START, LINE, status=408)
    monkeypatch.undo()

    async def unavailable(*_arguments: object) -> None:
        raise BlobsUnavailable("away")

    monkeypatch.setattr(StoredObjects, "write", unavailable)
    await person.call("POST", START, LINE, status=503)
    assert scene.chats.batches.records == {}
