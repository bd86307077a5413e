"""HTTP client of one upstream provider: sends requests with its API key, and stops them by a circuit breaker.

Answers are bounded before they are read: compression is neither requested nor accepted, redirects are not followed,
cookies are not kept, events and answers have a maximum size. Except for connecting, the caller sets the timeouts.
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
from proxy.errors import InvalidAnswer, RequestRefused, UpstreamError, UpstreamTimeout, UpstreamUnreachable
from proxy.stream import DONE, error_of
from runtime.circuit_breaker import CircuitBreaker

MAX_EVENT_BYTES = 1024 * 1024
MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Maximum size of an answer; the 2,048 vectors of a large model take half of it."""
MAX_ERROR_BYTES = 64 * 1024
REDACTED = "[redacted]"
_SECONDS = re.compile(r"\d{1,6}")


class Upstream:
    """HTTP client of one OpenAI-compatible server. Use on one event loop."""

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
        """Close the HTTP connections to this upstream; call it at shutdown."""
        await self._client.aclose()

    async def stream(self, path: str, body: dict[str, Any]) -> AsyncIterator[str]:
        """POST JSON `body` to `path` below the base URL; yield the data of each server-sent event of the response.

        Closing the iterator closes the connection.

        Raises:
            UpstreamError: the request failed, or the answer is not an event stream.
        """
        async with self._request(path, body, accept="text/event-stream") as response:
            async for event in httpx2.EventSource(response, max_event_size=MAX_EVENT_BYTES):
                if response.num_bytes_downloaded > MAX_ANSWER_BYTES:
                    raise InvalidAnswer(f"more than {MAX_ANSWER_BYTES} bytes")
                if event.event != "message" or not event.data:
                    continue
                if event.data == DONE:
                    return
                yield event.data

    async def post(self, path: str, body: dict[str, Any]) -> bytes:
        """POST `body` (JSON) to `path` below the base URL, and return the bytes of the response body.

        Raises:
            UpstreamError: the request failed, or the answer is too large.
        """
        async with self._request(path, body, accept="application/json") as response:
            answer = bytearray()
            async for chunk in response.aiter_raw():
                answer += chunk
                if len(answer) > MAX_ANSWER_BYTES:
                    raise InvalidAnswer(f"more than {MAX_ANSWER_BYTES} bytes")
            return bytes(answer)

    @asynccontextmanager
    async def _request(self, path: str, body: dict[str, Any], *, accept: str) -> AsyncIterator[httpx2.Response]:
        headers = {"accept": accept, **self._authorization()}
        try:
            async with self._client.stream(
                "POST", f"{self.spec.base_url}{path}", json=body, headers=headers
            ) as response:
                if response.status_code != 200:
                    raise await self._error_of(response)
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise InvalidAnswer("the answer is compressed")
                yield response
        except httpx2.ConnectTimeout as error:
            raise UpstreamTimeout(self._describe(error)) from error
        except (httpx2.SSEError, httpx2.DecodingError) as error:
            raise InvalidAnswer(self._describe(error)) from error
        except (httpx2.RequestError, httpx2.InvalidURL, OSError) as error:
            raise UpstreamUnreachable(self._describe(error)) from error

    def _authorization(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._key.get_secret_value()}"} if self._key is not None else {}

    def _describe(self, error: Exception) -> str:
        return self.redact(f"{type(error).__name__}: {error}")

    def redact(self, text: str) -> str:
        """Return `text`, such as an error message, with this upstream's API key replaced by a placeholder."""
        return text.replace(self._key.get_secret_value(), REDACTED) if self._key is not None else text

    async def _error_of(self, response: httpx2.Response) -> UpstreamError:
        if 300 <= response.status_code < 400:
            return InvalidAnswer(f"redirects are not followed ({response.status_code})")
        retry_after = response.headers.get("retry-after", "")
        error = error_of(
            _error_in(await _error_body(response)),
            status=response.status_code,
            retry_after=int(retry_after) if _SECONDS.fullmatch(retry_after) else None,
        )
        if isinstance(error, RequestRefused):
            error.message = self.redact(error.message)
        return error


async def _error_body(response: httpx2.Response) -> bytes:
    """Return an error's body, or nothing if it is compressed or too large."""
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
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(answer, dict):
        return None
    # OpenAI wraps errors in `error`; some servers do not.
    error = answer.get("error", answer)
    return {"message": error} if isinstance(error, str) else error
