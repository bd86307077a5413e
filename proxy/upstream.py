"""One upstream: its connections, its key and its circuit breaker.

What arrives is bounded before it is read: no compression is asked for and none is accepted, no redirect is followed, no
cookie is kept, an event and an answer have a size. Time limits are the caller's (`forwarder.py`), but for connecting.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx2
from pydantic import SecretStr

from proxy.catalogue import UpstreamSpec
from proxy.errors import Misbehaved, RequestRefused, TooSlow, Unreachable, UpstreamError
from proxy.stream import DONE, error_of
from runtime.circuit_breaker import CircuitBreaker

MAX_EVENT_BYTES = 1024 * 1024
MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""The 2,048 vectors of a large model have half of it."""
MAX_ERROR_BYTES = 64 * 1024
REDACTED = "[redacted]"
_SECONDS = re.compile(r"\d{1,6}")


class Upstream:
    """An OpenAI-compatible server. Use on one event loop."""

    def __init__(self, name: str, spec: UpstreamSpec, key: SecretStr | None) -> None:
        self.name = name
        self.spec = spec
        self.breaker = CircuitBreaker()
        self._key = key
        self._client = httpx2.AsyncClient(
            headers={"accept-encoding": "identity", "user-agent": "headrace-proxy"},
            timeout=httpx2.Timeout(None, connect=spec.timeouts.connect),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            follow_redirects=False,
        )

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def events(self, path: str, body: dict[str, Any]) -> AsyncIterator[str]:
        """Ask, and give out the data of each event up to the end. Closing the iterator closes the connection.

        Raises:
            UpstreamError: it could not be asked, or what came is no stream of events.
        """
        async with self._asked(path, body, accept="text/event-stream") as response:
            async for event in httpx2.EventSource(response, max_event_size=MAX_EVENT_BYTES):
                if response.num_bytes_downloaded > MAX_ANSWER_BYTES:
                    raise Misbehaved(f"more than {MAX_ANSWER_BYTES} bytes")
                if event.event != "message" or not event.data:
                    continue
                if event.data == DONE:
                    return
                yield event.data

    async def whole(self, path: str, body: dict[str, Any]) -> bytes:
        """Ask, and wait for the whole answer.

        Raises:
            UpstreamError: it could not be asked, or what came is too much.
        """
        async with self._asked(path, body, accept="application/json") as response:
            answer = bytearray()
            async for chunk in response.aiter_raw():
                answer += chunk
                if len(answer) > MAX_ANSWER_BYTES:
                    raise Misbehaved(f"more than {MAX_ANSWER_BYTES} bytes")
            return bytes(answer)

    @asynccontextmanager
    async def _asked(self, path: str, body: dict[str, Any], *, accept: str) -> AsyncIterator[httpx2.Response]:
        headers = {"accept": accept, **self._authorization()}
        try:
            async with self._client.stream(
                "POST", f"{self.spec.base_url}{path}", json=body, headers=headers
            ) as response:
                if response.status_code != 200:
                    raise await self._refusal(response)
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise Misbehaved("it compresses what was to be plain")
                yield response
        except httpx2.ConnectTimeout as error:
            raise TooSlow(self._said(error)) from error
        except (httpx2.SSEError, httpx2.DecodingError) as error:
            raise Misbehaved(self._said(error)) from error
        except (httpx2.RequestError, httpx2.InvalidURL, OSError) as error:
            raise Unreachable(self._said(error)) from error

    def _authorization(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._key.get_secret_value()}"} if self._key is not None else {}

    def _said(self, error: Exception) -> str:
        return self.without_key(f"{type(error).__name__}: {error}")

    def without_key(self, text: str) -> str:
        """The text, should our key be in it."""
        return text.replace(self._key.get_secret_value(), REDACTED) if self._key is not None else text

    async def _refusal(self, response: httpx2.Response) -> UpstreamError:
        if 300 <= response.status_code < 400:
            return Misbehaved(f"it redirects ({response.status_code}), which is not followed")
        retry_after = response.headers.get("retry-after", "")
        error = error_of(
            _error_in(await _beginning(response)),
            status=response.status_code,
            retry_after=int(retry_after) if _SECONDS.fullmatch(retry_after) else None,
        )
        if isinstance(error, RequestRefused):
            error.message = self.without_key(error.message)
        return error


async def _beginning(response: httpx2.Response) -> bytes:
    """An error's body as far as it is read; nothing of a compressed one."""
    if response.headers.get("content-encoding", "identity") != "identity":
        return b""
    body = b""
    async for chunk in response.aiter_raw(chunk_size=MAX_ERROR_BYTES):
        body += chunk
        if len(body) > MAX_ERROR_BYTES:
            return b""
    return body


def _error_in(body: bytes) -> Any:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    # OpenAI's shape; some servers leave the envelope out, FastAPI's own has `detail`.
    error = said.get("error", said)
    return {"message": error} if isinstance(error, str) else error
