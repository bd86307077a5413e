"""`/v1/uploads`: parts that gateways receive become a file; OpenAI's client uploads a file in chunks."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.gateway.conftest import OTHER_KEY, Serve, SetStage, Stage, gateway_beside
from tests.gateway.http.routes.test_files import error_of

CONTENT = os.urandom(200_000)


async def create(stage: Stage, size: int = 2, **fields: Any) -> dict[str, Any]:
    body = {"filename": "a.bin", "purpose": "user_data", "bytes": size, "mime_type": "text/html", **fields}
    response = await stage.client.post("/v1/uploads", json=body)
    assert response.status_code == 200, response.text
    upload: dict[str, Any] = response.json()
    return upload


async def test_parts_at_two_gateways_become_a_file(set_stage: SetStage) -> None:
    stage = await set_stage()
    upload = await create(stage)
    assert (upload["object"], upload["status"], upload["file"]) == ("upload", "pending", None)
    assert upload["expires_at"] == upload["created_at"] + 3600
    async with gateway_beside(stage) as (_, other):
        parts = []
        for client, content in ((other, b"b"), (stage.client, b"a")):
            response = await client.post(f"/v1/uploads/{upload['id']}/parts", files={"data": ("x", content)})
            assert response.json()["object"] == "upload.part"
            assert response.json()["upload_id"] == upload["id"]
            parts.append(response.json()["id"])
        body = {"part_ids": parts[::-1], "md5": hashlib.md5(b"ab", usedforsecurity=False).hexdigest()}
        done = (await other.post(f"/v1/uploads/{upload['id']}/complete", json=body)).json()
    assert done["status"] == "completed"
    stored = await stage.client.get(f"/v1/files/{done['file']['id']}/content")
    assert stored.content == b"ab"
    assert (await stage.client.get("/v1/files")).json()["data"] == [done["file"]]


@pytest.mark.parametrize("in_memory", [True, False])
async def test_openais_client_uploads_in_chunks(serve: Serve, tmp_path: Path, in_memory: bool) -> None:
    server = await serve()
    path = tmp_path / "large.bin"
    path.write_bytes(CONTENT)
    source: dict[str, Any] = {"file": path}
    if in_memory:
        source = {"file": CONTENT, "filename": "large.bin", "bytes": len(CONTENT)}
    checksum = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
    upload = await server.client.uploads.upload_file_chunked(
        mime_type="application/octet-stream", purpose="user_data", part_size=70_000, md5=checksum, **source
    )
    assert upload.status == "completed"
    assert upload.file is not None
    assert (upload.file.filename, upload.file.bytes) == ("large.bin", len(CONTENT))
    assert (await server.client.files.content(upload.file.id)).content == CONTENT
    cancelled = await server.client.uploads.create(bytes=1, filename="x", mime_type="x", purpose="batch")
    assert (await server.client.uploads.cancel(cancelled.id)).status == "cancelled"
    with pytest.raises(openai.NotFoundError):
        await server.client.uploads.parts.create(cancelled.id, data=b"x")


async def test_wrong_parts_and_bytes_are_refused(set_stage: SetStage) -> None:
    stage = await set_stage()
    upload, paths = await create(stage), "/v1/uploads"
    refused = [
        await stage.client.post(f"{paths}/{upload['id']}/parts", files={"other": ("x", b"a")}),
        await stage.client.post(f"{paths}/{upload['id']}/parts", files={"data": ("x", b"")}),
        await stage.client.post(f"{paths}/{upload['id']}/complete", json={"part_ids": ["part_x"]}),
        await stage.client.post(paths, json={"filename": "a", "purpose": "fine-tune", "bytes": 1, "mime_type": "x"}),
        await stage.client.post(paths, json={"filename": "a", "purpose": "batch", "bytes": 2**53, "mime_type": "x"}),
    ]
    assert [error_of(each) for each in refused] == [
        (400, "missing_required_parameter", "data"),
        (400, "invalid_value", "data"),
        (400, "invalid_value", "part_ids"),
        (400, "invalid_value", "purpose"),
        (413, "file_too_large", None),
    ]


async def test_other_projects_find_no_upload(set_stage: SetStage) -> None:
    stage = await set_stage()
    upload = await create(stage)
    stage.client.headers["authorization"] = f"Bearer {OTHER_KEY}"
    for id in (upload["id"], "upload_" + "a" * 24, "x"):
        path = f"/v1/uploads/{id}"
        for response in (
            await stage.client.post(f"{path}/parts", files={"data": ("x", b"a")}),
            await stage.client.post(f"{path}/complete", json={"part_ids": []}),
            await stage.client.post(f"{path}/cancel"),
        ):
            assert error_of(response) == (404, "not_found", None)
