"""Connects to MCP servers: by streamable HTTP through the guard of the tools' HTTP client, or to a process by stdio.

Both are of the operator's choice. No server gets anything of the environment but the variables that its entry lists,
and a client offers servers no sampling, no elicitation and no folders.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx2
from mcp import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from assistant.catalogue import McpSpec
from assistant.mcp.launcher import parameters
from assistant.tools.guarded_transport import GuardedTransport
from assistant.tools.http_client import USER_AGENT
from assistant.tools.public_addresses import AddressPolicy

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Most bytes of one HTTP response; a longer one breaks the connection."""
READ_TIMEOUT = 120.0
"""Seconds without a byte after which an HTTP response has failed; calls have limits of their own."""


@asynccontextmanager
async def open_client(spec: McpSpec, secrets: Mapping[str, str]) -> AsyncIterator[Client]:
    """Connect to one MCP server and agree on a version of the protocol; a context manager that yields the client.

    It disconnects at the end.

    Args:
        spec: the server's entry in the catalogue.
        secrets: values of the environment variables that the entry names.

    Raises:
        Exception: the server can't be reached or breaks the protocol; the library's own errors, grouped or not.
    """
    if spec.command is not None:
        started = stdio_client(parameters(spec.command, {name: secrets[name] for name in spec.env}))
        async with _client(started) as client:
            yield client
        return
    headers = {"user-agent": USER_AGENT, "accept-encoding": "identity"}
    if spec.token_env is not None:
        headers["authorization"] = f"Bearer {secrets[spec.token_env]}"
    async with (
        httpx2.AsyncClient(
            transport=BoundedTransport(GuardedTransport(AddressPolicy(spec.permitted_networks))),
            headers=headers,
            timeout=httpx2.Timeout(10.0, read=READ_TIMEOUT),
            trust_env=False,
        ) as http,
        _client(streamable_http_client(spec.url or "", http_client=http)) as client,
    ):
        yield client


def _client(transport: AbstractAsyncContextManager[object]) -> Client:
    return Client(transport, cache=None)  # type: ignore[arg-type]  # the library exports no name for its streams


class BoundedTransport(httpx2.AsyncBaseTransport):
    """A transport whose responses have at most `MAX_BODY_BYTES`, and no compression that could hide more."""

    def __init__(self, transport: httpx2.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one HTTP request to the MCP server and return the response, whose body is limited to `MAX_BODY_BYTES`.

        Raises:
            httpx2.TransportError: the exchange failed, or the response is compressed.
        """
        response = await self._transport.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.DecodingError("the response is compressed, which was not asked for")
        if not isinstance(response.stream, httpx2.AsyncByteStream):
            raise TypeError("the transport has no asynchronous stream")
        response.stream = _Bounded(response.stream)
        return response

    async def aclose(self) -> None:
        """Close all HTTP connections to the MCP server."""
        await self._transport.aclose()


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_BODY_BYTES
        async for part in self._stream:
            left -= len(part)
            if left < 0:
                raise httpx2.ReadError(f"the response has more than {MAX_BODY_BYTES} bytes")
            yield part

    async def aclose(self) -> None:
        """Close the response's body."""
        await self._stream.aclose()
