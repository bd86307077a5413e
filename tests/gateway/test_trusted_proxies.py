"""Behind a proxy, client address and scheme are taken from trusted proxies only."""

from __future__ import annotations

import httpx
import pytest
from fastapi import Request

from tests.gateway.conftest import Serve

FORWARDED = {"x-forwarded-for": "6.6.6.6, 203.0.113.7", "x-forwarded-proto": "https"}


@pytest.mark.parametrize(
    ("trusted", "seen"),
    [
        ("", ["http", "127.0.0.1"]),
        ("10.0.0.0/8", ["http", "127.0.0.1"]),
        ("127.0.0.1", ["https", "203.0.113.7"]),
        ("10.0.0.0/8,127.0.0.0/8", ["https", "203.0.113.7"]),
    ],
)
async def test_only_trusted_proxies_set_the_client_address(serve: Serve, trusted: str, seen: list[str]) -> None:
    served = await serve(trusted_proxies=trusted)

    @served.stage.app.get("/seen")
    async def what_is_seen(request: Request) -> list[str]:
        assert request.client is not None
        return [request.url.scheme, request.client.host]

    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{served.port}") as client:
        assert (await client.get("/seen", headers=FORWARDED)).json() == seen
