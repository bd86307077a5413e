"""H59: the limit on unauthenticated connections per address."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from gateway.http import http_protocol, unauthenticated_connections
from gateway.http.unauthenticated_connections import UnauthenticatedConnections
from tests.fakes.accounts import FakeClock
from tests.gateway.conftest import HEADERS, Serve, eventually


def test_many_connections_may_open_at_once_but_not_stay_unauthenticated() -> None:
    clock = FakeClock()
    those = UnauthenticatedConnections(2, clock)
    assert all(those.add(("10.0.0.1", port)) for port in range(10))
    clock.now += 2.0
    assert not those.add(("10.0.0.1", 10))
    assert those.add(("10.0.0.2", 10))
    for port in range(9):
        those.discard(("10.0.0.1", port))
        those.discard(("10.0.0.1", port))
    assert those.add(("10.0.0.1", 11))
    assert len(those) == 3


def test_an_ipv6_network_counts_as_one_address() -> None:
    clock = FakeClock()
    those = UnauthenticatedConnections(1, clock)
    assert those.add(("2001:db8::1", 1))
    clock.now += 2.0
    assert not those.add(("2001:db8::2", 1))
    assert those.add(("2001:db8:0:1::1", 1))
    assert those.add(("no address", 1))


async def test_unauthenticated_connections_are_limited(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unauthenticated_connections, "GRACE_PERIOD", 0.0)
    served = await serve(max_strangers=3)
    those = served.stage.gateway.unauthenticated
    await eventually(lambda: len(those) == 0)  # the one that saw whether it listens has gone
    silent = [await served.connect() for _ in range(3)]
    await eventually(lambda: len(those) == 3)
    reader, writer = await served.connect()
    answer = await asyncio.wait_for(reader.read(), 20)
    assert answer.startswith(b"HTTP/1.1 429 ")
    assert b"retry-after: 10" in answer
    assert b'"code":"rate_limit_exceeded"' in answer
    writer.close()
    silent.pop()[1].close()
    await eventually(lambda: len(those) == 2)
    async with httpx.AsyncClient(headers=HEADERS, timeout=20) as known:
        assert (await known.get(f"{served.url}/models")).status_code == 200
        assert len(those) == 2  # it is none any more
    for _, writer in silent:
        writer.close()
    await eventually(lambda: len(those) == 0)


async def test_idle_unauthenticated_connections_are_closed_early(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """H59: browsers of many people behind one address, who are about to sign in, leave room for one another."""
    monkeypatch.setattr(http_protocol, "UNAUTHENTICATED_IDLE_TIMEOUT", 0.2)
    served = await serve()
    silent, stranger, caller = [await served.connect() for _ in range(3)]
    key = f"Authorization: {HEADERS['authorization']}\r\n"
    for (_, writer), path, headers in ((stranger, "/healthz", ""), (caller, "/v1/models", key)):
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
    async with asyncio.timeout(20):
        assert await silent[0].read() == b""
        assert (await stranger[0].read()).startswith(b"HTTP/1.1 200 ")
    assert (await caller[0].readline()).startswith(b"HTTP/1.1 200 ")
    await asyncio.sleep(0.5)
    caller[1].write(f"GET /v1/models HTTP/1.1\r\nHost: x\r\n{key}Connection: close\r\n\r\n".encode())
    assert (await asyncio.wait_for(caller[0].read(), 20)).count(b"HTTP/1.1 200 ") == 1
    for _, writer in (silent, stranger, caller):
        writer.close()
