"""The application of gateway and chat over the real store: stored objects at addresses that every gateway accepts."""

from __future__ import annotations

import json
import time
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute

from auth_billing.store.connection import StoreConnection
from gateway.http.routes import ollama
from gateway.settings import GatewaySettings
from infra.accounts.account_services import AccountServices
from infra.home.home import Home
from infra.install.node_packages import WEB
from infra.web_app.app import create_web_app
from router.bus import Bus
from router.transport.memory import MemoryBroker, MemoryTransport
from runtime.lifecycle import StartupError
from stored_objects.objects.records import ObjectKind, ObjectOwner
from stored_objects.objects.sweeper import ObjectSweeper
from stored_objects.store.objects import COLLECTION
from tests.chat_ui.test_served_chat import platform

pytestmark = pytest.mark.store

OWNER = ObjectOwner("org-1", "user-ada")
PNG = b"\x89PNG" + bytes(3_000_000)


def file_of(home: Path, blob_id: str) -> Path:
    (path,) = home.rglob(blob_id)
    return path


def test_the_chats_api_has_no_path_of_ollamas() -> None:
    of_chat = json.loads((WEB / "openapi.json").read_text())["paths"].keys()
    of_ollama = {route.path for route in ollama.router.routes if isinstance(route, APIRoute)}
    assert "/api/chat" in of_ollama
    assert not of_chat & of_ollama


async def test_objects_are_stored_served_and_swept(database_url: str, tmp_path: Path) -> None:
    async with platform(database_url, tmp_path, gateways=2) as served, httpx.AsyncClient() as client:
        first, second = served.gateways
        image = await first.objects.put(OWNER, PNG, kind=ObjectKind.IMAGE, media_type="image/png")
        path = file_of(tmp_path, image.id)
        assert path.parents[1].name == "blobs"
        urls = [first.addresses.address(image.id, each.removesuffix("/v1")) for each in served.urls]
        for url in urls:
            response = await client.get(url)
            assert (response.status_code, response.content) == (200, PNG)
            assert (await client.get(url[:-1])).status_code == 403
        await second.objects.keep(image.id, OWNER, "chat-1")
        documents = served._access.connection.durable(COLLECTION)
        await documents.update_one({"_id": image.id}, {"$set": {"expires": time.time() - 1}})
        await ObjectSweeper(first.objects).sweep()
        assert (await client.get(urls[1])).status_code == 200
        await second.objects.release(OWNER, "chat-1")
        await ObjectSweeper(second.objects).sweep()
        assert not path.exists()
        assert (await client.get(urls[0])).status_code == 404
        metrics = [each.name for each in first.metrics.registry.collect()]
        assert "headrace_objects_stored" in metrics


async def test_a_gateway_whose_blobs_cannot_be_written_does_not_start(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADRACE_BLOBS_URL", f"file://{tmp_path}/file")
    connection = StoreConnection(database_url, operation_ms=20_000)
    bus = Bus(MemoryTransport(MemoryBroker(), "gateway"))
    await bus.start()
    app = create_web_app(AccountServices(Home(tmp_path), connection, b"p" * 32), bus, GatewaySettings())
    with pytest.raises(StartupError, match="HEADRACE_BLOBS_URL"):
        async with app.router.lifespan_context(app):
            pass
    await bus.close()
    connection.close()
