"""`GET /v1/blobs/{blob_id}`: objects at signed addresses, harmless in browsers; refusals in OpenAI's format."""

from __future__ import annotations

import os
import time
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.requests import Request

from gateway.http.routes.blobs import address_of
from stored_objects.blobs.addresses import LIFETIME, AddressSigner
from stored_objects.blobs.blobs import CHUNK, Blobs, new_blob_id
from stored_objects.errors import BlobsUnavailable
from stored_objects.objects.records import ObjectKind, ObjectOwner, StoredObject
from tests.fakes.stored_objects import ADDRESS_KEY
from tests.gateway.conftest import SetStage, Stage

OWNER = ObjectOwner("org-1", "user-ada")
PNG = b"\x89PNG\r\n\x1a\n" + os.urandom(5000)


async def stored(stage: Stage, content: bytes = PNG, media_type: str = "image/png") -> StoredObject:
    return await stage.gateway.objects.put(OWNER, content, kind=ObjectKind.IMAGE, media_type=media_type)


async def get(stage: Stage, address: str) -> httpx.Response:
    """The response to a client without an API key."""
    return await stage.client.get(address, headers={"authorization": ""})


def refused(response: httpx.Response, status: int, code: str) -> bool:
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert "org-1" not in response.text
    return (response.status_code, error["code"]) == (status, code)


async def test_an_image_is_shown_and_nothing_of_it_runs(set_stage: SetStage) -> None:
    stage = await set_stage()
    image = await stored(stage)
    response = await get(stage, stage.gateway.addresses.address(image.id))
    assert (response.status_code, response.content) == (200, PNG)
    headers = response.headers
    assert headers["content-type"] == "image/png"
    assert headers["content-length"] == str(len(PNG))
    assert headers["content-disposition"] == f'inline; filename="{image.id}.png"'
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert headers["cache-control"].startswith("private")
    assert "set-cookie" not in headers


@pytest.mark.parametrize("media_type", ["text/html", "image/svg+xml", "application/pdf", "image/x-unknown"])
async def test_other_media_types_are_downloads(set_stage: SetStage, media_type: str) -> None:
    stage = await set_stage()
    page = await stored(stage, b"<script>alert(1)</script>", media_type)
    response = await get(stage, stage.gateway.addresses.address(page.id))
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["content-disposition"] == f'attachment; filename="{page.id}.bin"'


@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1], ids=str)
async def test_contents_of_every_size_are_complete(set_stage: SetStage, size: int) -> None:
    stage = await set_stage()
    stage.gateway.objects.blobs.max_bytes = 2 * CHUNK
    content = os.urandom(size)
    response = await get(stage, stage.gateway.addresses.address((await stored(stage, content)).id))
    assert response.content == content


async def test_forged_and_expired_addresses_are_refused(set_stage: SetStage) -> None:
    stage = await set_stage()
    image, other = await stored(stage), await stored(stage)
    address = stage.gateway.addresses.address(image.id)
    query = urlsplit(address).query
    forged = [
        f"/v1/blobs/{image.id}",
        f"/v1/blobs/{other.id}?{query}",
        f"/v1/blobs/{new_blob_id()}?{query}",
        f"{address[:-1]}{'1' if address[-1] == '0' else '0'}",
        address.replace("expires=", "expires=9"),
        address.replace(f"expires={int(time.time())}"[:12], "expires=9999"),
        f"/v1/blobs/..%2F{image.id}?{query}",
    ]
    for each in forged:
        response = await get(stage, each)
        assert refused(response, 403, "invalid_signature") or response.status_code == 404, each
    assert refused(await get(stage, f"{address}&signature=0"), 400, "invalid_value")
    past = AddressSigner(ADDRESS_KEY, lambda: time.time() - LIFETIME - 1).address(image.id)
    assert refused(await get(stage, past), 403, "address_expired")
    assert (await get(stage, address)).status_code == 200


async def test_an_api_key_is_no_substitute_for_a_signature(set_stage: SetStage) -> None:
    stage = await set_stage()
    image = await stored(stage)
    assert refused(await stage.client.get(f"/v1/blobs/{image.id}"), 403, "invalid_signature")


async def test_a_deleted_object_is_not_found(set_stage: SetStage) -> None:
    stage = await set_stage()
    image = await stored(stage)
    await stage.gateway.objects.delete(image.id, OWNER)
    assert refused(await get(stage, stage.gateway.addresses.address(image.id)), 404, "not_found")
    never = stage.gateway.addresses.address(new_blob_id())
    assert refused(await get(stage, never), 404, "not_found")


async def test_corrupt_content_is_an_error_and_never_complete(set_stage: SetStage) -> None:
    stage = await set_stage()
    objects = stage.gateway.objects
    objects.blobs.max_bytes = 2 * CHUNK
    small, large = await stored(stage), await stored(stage, os.urandom(CHUNK + 10))
    for each in (small, large):
        await objects.blobs.put(each.id, os.urandom(each.size))
    response = await get(stage, stage.gateway.addresses.address(small.id))
    assert (response.status_code, response.json()["error"]["type"]) == (500, "server_error")
    with pytest.raises(AssertionError):  # of httpx's transport: the response has not ended
        await get(stage, stage.gateway.addresses.address(large.id))


async def test_blobs_that_do_not_answer_are_unavailable(set_stage: SetStage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await set_stage()
    image = await stored(stage)

    def fail(self: Blobs, *_: object) -> object:
        raise BlobsUnavailable("s3.internal refused the connection")

    monkeypatch.setattr(Blobs, "stream", fail)
    response = await get(stage, stage.gateway.addresses.address(image.id))
    assert refused(response, 503, "service_unavailable")
    assert "s3.internal" not in response.text


async def test_an_address_begins_with_the_origin_of_the_request(set_stage: SetStage) -> None:
    stage = await set_stage()
    image = await stored(stage)
    scope = {
        "type": "http",
        "app": stage.app,
        "scheme": "https",
        "server": ("gateway", 443),
        "path": "/v1/images/generations",
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"api.example.org")],
    }
    address = address_of(Request(scope), image.id)
    assert address.startswith(f"https://api.example.org/v1/blobs/{image.id}?")
    assert (await get(stage, address.removeprefix("https://api.example.org"))).content == PNG
