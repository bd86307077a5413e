"""`/v1/files`: stored and read through any gateway by OpenAI's client, harmless as downloads, invisible to others."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import httpx
import openai
import pytest

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import PROJECT_SCOPES, Scope
from gateway.http.multipart_form import MAX_OVERHEAD
from stored_objects.objects.objects import FileLimits
from stored_objects.objects.records import ObjectOwner
from tests.fakes.stored_objects import DictObjectStore
from tests.gateway.conftest import KEY, OTHER_KEY, Serve, SetStage, Stage, gateway_beside

CONTENT = b'{"custom_id": "1"}\n' * 100
FILE = ("a.jsonl", CONTENT, "text/html")
MIB = 2**20


async def post(stage: Stage, **fields: Any) -> httpx.Response:
    data = {"purpose": "user_data", **fields.pop("data", {})}
    return await stage.client.post("/v1/files", data=data, files={"file": FILE, **fields})


async def post_raw(stage: Stage, body: bytes, content_type: str = "multipart/form-data; boundary=XX") -> httpx.Response:
    return await stage.client.post("/v1/files", content=body, headers={"content-type": content_type})


def error_of(response: httpx.Response) -> tuple[int, str | None, str | None]:
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return response.status_code, error["code"], error["param"]


def left_over(stage: Stage) -> int:
    documents = stage.gateway.objects.documents
    assert isinstance(documents, DictObjectStore)
    return len(documents.records)


async def test_a_file_is_stored_and_read_through_the_other_gateway(set_stage: SetStage) -> None:
    stage = await set_stage()
    created = (await post(stage)).json()
    assert created["id"].startswith("file-")
    assert {**created, "id": "", "created_at": 0} == {
        "id": "",
        "object": "file",
        "bytes": len(CONTENT),
        "created_at": 0,
        "filename": "a.jsonl",
        "purpose": "user_data",
        "status": "processed",
    }
    async with gateway_beside(stage) as (_, other):
        assert (await other.get(f"/v1/files/{created['id']}")).json() == created
        assert (await other.get("/v1/files")).json()["data"] == [created]
        response = await other.get(f"/v1/files/{created['id']}/content")
        assert response.content == CONTENT
        assert response.headers["content-type"] == "application/octet-stream"
        assert response.headers["content-disposition"] == f'attachment; filename="{created["id"]}"'
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["content-security-policy"] == "default-src 'none'; sandbox"
        deleted = await other.delete(f"/v1/files/{created['id']}")
        assert deleted.json() == {"id": created["id"], "object": "file", "deleted": True}
    assert error_of(await stage.client.get(f"/v1/files/{created['id']}")) == (404, "not_found", None)


async def test_openais_client_uses_files(serve: Serve) -> None:
    server = await serve()
    client = server.client
    file = await client.files.create(
        file=("b.jsonl", CONTENT), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert file.expires_at == file.created_at + 3600
    others = [await client.files.create(file=(f"{n}.txt", b"x"), purpose="user_data") for n in range(3)]
    assert (await client.files.retrieve(file.id)) == file
    assert (await client.files.content(file.id)).content == CONTENT
    async with client.files.with_streaming_response.content(file.id) as streamed:
        assert b"".join([each async for each in streamed.iter_bytes()]) == CONTENT
    listed = [each.id async for each in client.files.list(limit=2)]
    assert set(listed) == {file.id, *(each.id for each in others)}
    assert [each.id async for each in client.files.list(purpose="batch")] == [file.id]
    ascending = [each.id async for each in client.files.list(order="asc", limit=1)]
    assert ascending == listed[::-1]
    assert (await client.files.delete(file.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await client.files.content(file.id)


async def test_other_projects_get_the_same_answer_as_for_an_unknown_id(set_stage: SetStage) -> None:
    stage = await set_stage()
    id = (await post(stage)).json()["id"]
    stage.accounts.added["hr_live_sibling"] = Principal("key-3", "tenant-1", "salt-1", project="project-2")
    for key in (OTHER_KEY, "hr_live_sibling"):
        headers = {"authorization": f"Bearer {key}"}
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/content")):
            there = await stage.client.request(method, f"/v1/files/{id}{path}", headers=headers)
            unknown = await stage.client.request(method, f"/v1/files/file-{'a' * 24}{path}", headers=headers)
            assert error_of(there) == (404, "not_found", None)
            assert there.json() == unknown.json()
        after = await stage.client.get(f"/v1/files?after={id}", headers=headers)
        assert (after.status_code, after.json()["error"]["param"]) == (400, "after")
        assert (await stage.client.get("/v1/files", headers=headers)).json()["data"] == []
    assert (await stage.client.get(f"/v1/files/{id}")).status_code == 200


async def test_a_key_needs_the_scope(set_stage: SetStage) -> None:
    stage = await set_stage()
    scopes = PROJECT_SCOPES - {Scope.FILES}
    stage.accounts.added["hr_live_chat"] = Principal("key-4", "tenant-1", "salt-1", project="project-1", scopes=scopes)
    stage.client.headers["authorization"] = "Bearer hr_live_chat"
    assert error_of(await post(stage)) == (403, "missing_scope", None)
    assert error_of(await stage.client.get("/v1/files")) == (403, "missing_scope", None)


async def test_fields_may_follow_the_file(set_stage: SetStage) -> None:
    stage = await set_stage()
    body = (
        b'--XX\r\nContent-Disposition: form-data; name="file"; filename="../\x01x.txt"\r\n\r\n1\r\n'
        b'--XX\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nvision\r\n--XX--\r\n'
    )
    created = (await post_raw(stage, body)).json()
    assert (created["filename"], created["purpose"]) == ("x.txt", "vision")


FIELD = b'--XX\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n%s\r\n'
UPLOADED = b'--XX\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n%s\r\n'


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (FIELD % b"batch" + b"--XX--", (400, "missing_required_parameter", "file")),
        (UPLOADED % b"1" + b"--XX--", (400, "missing_required_parameter", "purpose")),
        (FIELD % b"batch" + UPLOADED % b"" + b"--XX--", (400, "missing_required_parameter", "file")),
        (FIELD % b"batch" + 2 * (UPLOADED % b"1") + b"--XX--", (400, "missing_required_parameter", "file")),
        (FIELD % b"fine-tune" + UPLOADED % b"1" + b"--XX--", (400, "invalid_value", "purpose")),
        (UPLOADED % b"1" + FIELD % b"fine-tune" + b"--XX--", (400, "invalid_value", "purpose")),
        (FIELD % b"batch" + UPLOADED % b"1", (400, "invalid_json", None)),
        (b"no form", (400, "invalid_json", None)),
        (b"\r\n" * 100_000, (400, "invalid_json", None)),
        ((FIELD % b"batch") * 100_000, (413, None, None)),
    ],
    ids=["no-file", "no-purpose", "empty", "two", "fine-tune", "fine-tune-late", "cut", "no-form", "lines", "many"],
)
async def test_hostile_forms_are_refused_and_leave_nothing(
    set_stage: SetStage, body: bytes, answer: tuple[int, str, str | None]
) -> None:
    stage = await set_stage()
    stage.gateway.objects.file_limits = FileLimits(max_bytes=MIB)
    response = await post_raw(stage, body)
    status, code, param = error_of(response)
    assert (status, param) == (answer[0], answer[2])
    assert answer[1] in (None, code)
    assert left_over(stage) == 0


@pytest.mark.parametrize(
    "content_type", ["application/json", "multipart/form-data", "multipart/form-data; boundary=" + "x" * 9999]
)
async def test_other_bodies_are_refused(set_stage: SetStage, content_type: str) -> None:
    stage = await set_stage()
    assert error_of(await post_raw(stage, b"{}", content_type))[0] in (400, 415)


async def test_too_large_a_file_is_refused(set_stage: SetStage) -> None:
    """By its declared length, by its bytes, and by the bytes of a body whose length is not declared."""
    stage = await set_stage()
    stage.gateway.objects.file_limits = FileLimits(max_bytes=MIB)
    for size in (MIB + 1, MIB + MAX_OVERHEAD + 1):
        response = await post(stage, file=("x", bytes(size)))
        assert error_of(response) == (413, "file_too_large", None)

    async def endless() -> AsyncIterator[bytes]:
        yield FIELD % b"batch" + UPLOADED[:-4]
        while True:
            yield bytes(MIB)

    headers = {"content-type": "multipart/form-data; boundary=XX"}
    response = await stage.client.post("/v1/files", content=endless(), headers=headers)
    assert response.status_code == 413
    assert left_over(stage) == 0
    assert (await post(stage, file=("x", bytes(MIB)))).status_code == 200


async def test_the_quota_of_a_project_is_an_error_that_names_no_size(set_stage: SetStage) -> None:
    stage = await set_stage()
    stage.gateway.objects.quotas.per_project = 10_000
    assert (await post(stage)).status_code == 200
    response = await post(stage, file=("x", bytes(9000)))
    assert error_of(response) == (429, "insufficient_quota", None)
    assert response.headers["x-should-retry"] == "false"
    assert left_over(stage) == 1


async def test_a_client_that_leaves_leaves_nothing(serve: Serve) -> None:
    server = await serve()
    _, writer = await server.connect()
    head = (
        f"POST /v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
        "Content-Type: multipart/form-data; boundary=XX\r\nContent-Length: 5000000\r\n\r\n"
    )
    writer.write(head.encode() + FIELD % b"batch" + UPLOADED[:-4] + bytes(2 * MIB))
    await writer.drain()
    async with asyncio.timeout(20):
        while left_over(server.stage) == 0:
            await asyncio.sleep(0.01)
        writer.close()
        while left_over(server.stage):
            await asyncio.sleep(0.01)


async def test_corrupt_content_is_never_delivered_whole(set_stage: SetStage) -> None:
    stage = await set_stage()
    id = (await post(stage)).json()["id"]
    owner = ObjectOwner.of_project("tenant-1", "project-1")
    stored = await stage.gateway.files.find(owner, id)
    await stage.gateway.objects.blobs.put(stored.id, bytes(stored.size))
    response = await stage.client.get(f"/v1/files/{id}/content")
    assert (response.status_code, response.json()["error"]["type"]) == (500, "server_error")


async def test_pages_of_files(set_stage: SetStage) -> None:
    stage = await set_stage()
    ids = [(await post(stage)).json()["id"] for _ in range(5)]

    def pages() -> Iterator[str]:
        yield "limit=2"
        while True:
            yield f"limit=2&after={page['last_id']}"

    found: list[str] = []
    for query in pages():
        page = (await stage.client.get(f"/v1/files?order=asc&{query}")).json()
        found += [each["id"] for each in page["data"]]
        assert page["first_id"] == page["data"][0]["id"]
        if not page["has_more"]:
            break
    assert sorted(found) == sorted(ids)
    assert len(found) == 5
    assert (await stage.client.get("/v1/files?purpose=batch")).json() == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }


async def test_an_image_of_another_owner_is_no_file(set_stage: SetStage) -> None:
    """Files are looked up by project, so that the images of a key don't appear among them."""
    stage = await set_stage()
    id = (await post(stage)).json()["id"]
    documents = stage.gateway.objects.documents
    assert isinstance(documents, DictObjectStore)
    ((blob, record),) = documents.records.items()
    documents.records[blob] = replace(record, requester="key-1")
    assert error_of(await stage.client.get(f"/v1/files/{id}")) == (404, "not_found", None)


async def test_large_files_pass_in_pieces(set_stage: SetStage) -> None:
    stage = await set_stage()
    content = os.urandom(5 * MIB + 3)
    id = (await post(stage, file=("x", content))).json()["id"]
    assert (await stage.client.get(f"/v1/files/{id}/content")).content == content
