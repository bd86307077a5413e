"""HTTP of MCP clients: bodies are bounded, and compressed ones are refused."""

from __future__ import annotations

import httpx2
import pytest

from assistant.mcp.transports import MAX_BODY_BYTES, BoundedTransport


def client(size: int, **headers: str) -> httpx2.AsyncClient:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=headers, stream=httpx2.ByteStream(b"x" * size))

    return httpx2.AsyncClient(transport=BoundedTransport(httpx2.MockTransport(answer)), trust_env=False)


async def test_bodies_are_bounded() -> None:
    async with client(MAX_BODY_BYTES) as http:
        assert len((await http.get("https://a.example/")).content) == MAX_BODY_BYTES
    async with client(MAX_BODY_BYTES + 1) as http:
        with pytest.raises(httpx2.ReadError, match="more than"):
            await http.get("https://a.example/")


async def test_compressed_bodies_are_refused() -> None:
    async with client(10, **{"content-encoding": "gzip"}) as http:
        with pytest.raises(httpx2.DecodingError):
            await http.get("https://a.example/")
