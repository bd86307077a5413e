"""The ops server answers from memory, on loopback, and survives invalid requests."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter

from runtime.lifecycle import StartupError
from runtime.ops_server import REQUEST_BYTES, OpsServer


@pytest.fixture
async def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def server(registry: CollectorRegistry) -> AsyncIterator[OpsServer]:
    server = OpsServer(registry, "127.0.0.1", 0, lambda: {"running": 2})
    await server.start()
    yield server
    await server.stop()


async def get(server: OpsServer, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client:
        return await client.request(method, path, headers=headers)


async def raw(server: OpsServer, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(data)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def test_metrics_in_both_formats(server: OpsServer, registry: CollectorRegistry) -> None:
    Counter("jobs", "Jobs done.", registry=registry).inc()
    plain = await get(server, "/metrics")
    assert plain.status_code == 200
    assert plain.headers["content-type"].startswith("text/plain")
    assert "jobs_total 1.0" in plain.text
    modern = await get(server, "/metrics", accept="application/openmetrics-text;version=1.0.0")
    assert modern.headers["content-type"].startswith("application/openmetrics-text")
    assert modern.text.endswith("# EOF\n")


async def test_health_and_status(server: OpsServer) -> None:
    assert (await get(server, "/healthz")).text == "ok\n"
    assert json.loads((await get(server, "/status?x=1")).text) == {"running": 2}


async def test_head_has_no_body_and_other_paths_and_methods_are_refused(server: OpsServer) -> None:
    assert (await get(server, "/healthz", "HEAD")).content == b""
    assert (await get(server, "/debug")).status_code == 404
    assert (await get(server, "/metrics", "POST")).status_code == 405


@pytest.mark.parametrize(
    "data", [b"\x00\xff\r\n\r\n", b"GET /\r\n\r\n", b"GET / SPDY/3\r\n\r\n", b"x" * (REQUEST_BYTES + 9)]
)
async def test_invalid_http_is_a_400(server: OpsServer, data: bytes) -> None:
    assert (await raw(server, data)).startswith(b"HTTP/1.1 400 ")


async def test_an_incomplete_request_is_closed_without_an_error(server: OpsServer) -> None:
    assert await raw(server, b"GET /metrics HT") == b""
    assert (await get(server, "/healthz")).status_code == 200


async def test_a_failing_status_is_a_500_and_the_server_continues(registry: CollectorRegistry) -> None:
    server = OpsServer(registry, "127.0.0.1", 0, lambda: {"bad": object()})
    await server.start()
    assert (await get(server, "/status")).status_code == 500
    assert (await get(server, "/healthz")).status_code == 200
    await server.stop()


async def test_a_port_in_use_is_a_one_line_error(server: OpsServer, registry: CollectorRegistry) -> None:
    with pytest.raises(StartupError, match=f"127.0.0.1:{server.port}: .*in use"):
        await OpsServer(registry, "127.0.0.1", server.port).start()


async def test_stopping_frees_the_port(registry: CollectorRegistry) -> None:
    server = OpsServer(registry)
    await server.start()
    await server.stop()
    again = OpsServer(registry, "127.0.0.1", server.port)
    await again.start()
    await again.stop()


async def test_a_connection_without_a_request_is_closed_after_a_timeout(
    server: OpsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.ops_server.REQUEST_TIMEOUT", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    async with asyncio.timeout(2):
        assert await reader.read() == b""
    writer.close()
