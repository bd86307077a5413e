"""Base of the stubs of outside services: an HTTP server that answers JSON and records its requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.fakes.hostile_site import HostileSite, response

ADDRESS = "127.0.0.2"
"""Loopback address that tests permit for outside services; 127.0.0.1 stays forbidden."""
PERMITTED = f"{ADDRESS}/32"


@dataclass(frozen=True)
class Asked:
    """A request that a stub received."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]


Answer = tuple[int, Any]
Endpoint = Callable[[dict[str, str]], Answer]


class RecordingService:
    """A stub of an outside service. `asked` are its requests; `failure`, if set, answers all of them."""

    def __init__(self, **endpoints: Endpoint) -> None:
        self.endpoints = endpoints
        self.failure: Answer | None = None
        self.url = ""
        self._site = HostileSite(ADDRESS)

    @property
    def asked(self) -> list[Asked]:
        return [_asked(each) for each in self._site.requests]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RecordingService]:
        for name in self.endpoints:
            self._site.paths[name] = self._answer
        async with self._site.running():
            self.url = f"http://{ADDRESS}:{self._site.port}"
            yield self

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        asked = _asked(self._site.requests[-1])
        status, value = self.failure or self.endpoints[asked.path](asked.query)
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        await response(body, status=status, content_type="application/json; charset=utf-8")(writer)


def _asked(head: list[str]) -> Asked:
    url = urlsplit(head[0].split(" ")[1])
    pairs = (each.split(": ", 1) for each in head[1:])
    return Asked(url.path, dict(parse_qsl(url.query)), {name.lower(): value for name, value in pairs})
