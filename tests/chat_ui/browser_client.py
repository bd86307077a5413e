"""An HTTP client that behaves like a browser with the chat page: a cookie jar, `Origin` and CSRF headers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
from fastapi import FastAPI

from chat_ui.http.cookies import CSRF, SECURE_PREFIX
from tests.fakes.sessions import PASSWORD

HTTP, HTTPS = "http://127.0.0.1:8000", "https://chat.example"


class Browser:
    """A browser: its cookies, and the headers that the chat page adds."""

    def __init__(self, app: FastAPI | None, origin: str = HTTPS, address: str = "10.0.0.1") -> None:
        """`app`: the application to call in process; `None`: the server at `origin`; reads are then repeated on 503."""
        self.origin = origin
        self._repeats_reads = app is None
        self.address = address
        self.client = httpx.AsyncClient(transport=self._way(app), base_url=origin, timeout=60)

    def _way(self, app: FastAPI | None) -> httpx.AsyncBaseTransport | None:
        if app is None:
            return None
        return httpx.ASGITransport(app, client=(self.address, 1234), raise_app_exceptions=False)

    def move_to(self, app: FastAPI) -> None:
        """Send all further requests to another gateway, as a load balancer may."""
        cookies = self.cookies
        self.client = httpx.AsyncClient(transport=self._way(app), base_url=self.origin, timeout=60)
        self.take(cookies)

    @property
    def csrf(self) -> str:
        name = SECURE_PREFIX + CSRF if self.origin.startswith("https") else CSRF
        return self.client.cookies.get(name) or ""

    @property
    def cookies(self) -> dict[str, str]:
        return dict(self.client.cookies)

    def take(self, cookies: dict[str, str]) -> None:
        """Replace the cookies by those of another browser."""
        for name, value in cookies.items():
            self.client.cookies.set(name, value, domain=httpx.URL(self.origin).host, path="/")

    async def get(self, path: str, **headers: str) -> httpx.Response:
        response = await self._call("GET", path, b"", dict(headers))
        while self._repeats_reads and response.status_code == 503:  # a store on a busy machine answers late
            await asyncio.sleep(float(response.headers["retry-after"]))
            response = await self._call("GET", path, b"", dict(headers))
        return response

    async def send(self, method: str, path: str, body: Any = None, **headers: str | None) -> httpx.Response:
        """Send a request as the chat page does; a header may be changed, or left out (`None`)."""
        own = {"origin": self.origin, "content-type": "application/json", "x-csrf-token": self.csrf}
        sent = {**own, **{name.replace("_", "-"): value for name, value in headers.items()}}
        raw = isinstance(body, bytes | AsyncIterator)
        content = body if raw else b"" if body is None else json.dumps(body).encode()
        return await self._call(method, path, content, sent)

    async def _call(self, method: str, path: str, content: Any, headers: Mapping[str, str | None]) -> httpx.Response:
        request = self.client.build_request(method, f"/api{path}", content=content)
        request.headers.encoding = "utf-8"
        for name, value in headers.items():
            request.headers.pop(name, None)
            if value is not None:
                request.headers[name] = value
        return await self.client.send(request)

    async def sign_up(self, token: str, name: str) -> httpx.Response:
        body = {"email": f"{name}@example.org", "name": name, "password": PASSWORD, "invitation": token}
        return await self.send("POST", "/sign-up", body)

    async def sign_in(self, name: str, password: str = PASSWORD) -> httpx.Response:
        return await self.send("POST", "/session", {"email": f"{name}@example.org", "password": password})
