"""HTTP transport of the tools that connects to permitted addresses only: guards against request forgery (SSRF).

A host name is resolved once for each connection, its addresses are checked, and the connection is made to a checked
address: a name server that changes its answer (DNS rebinding) can't move it. TLS certificates are verified against the
name. Kept-alive connections are found by name and go to the address that was checked.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import contextmanager

import httpcore2
import httpx2

from assistant.tools.public_addresses import AddressPolicy, Resolver, resolve_with_system

MAX_CONNECTIONS = 20
KEEP_ALIVE = 15.0
"""Seconds that an idle connection is kept."""
MAX_ADDRESSES = 3
"""Addresses of one host that a connection is tried to."""


class AddressRefused(httpx2.ConnectError):
    """Raised if a host has addresses, and none of them is permitted."""


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """Opens TCP connections to permitted addresses."""

    def __init__(self, policy: AddressPolicy, resolve: Resolver) -> None:
        self._policy = policy
        self._resolve = resolve
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's interface
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Open a TCP connection to `host`, resolved once, at the first of its permitted addresses that answers.

        Raises:
            AddressRefused: no address of the host is permitted.
            httpcore2.ConnectError: the host has no address, or no permitted address answers.
        """
        try:
            found = await self._resolve(host, port)
        except OSError as error:
            raise httpcore2.ConnectError("the host name has no address") from error
        permitted = [each for each in found if self._policy.permits(each)][:MAX_ADDRESSES]
        if not permitted:
            raise AddressRefused("the host has no address that may be connected to")
        deadline = None if timeout is None else time.monotonic() + timeout
        for address in permitted[:-1]:
            try:
                part = None if timeout is None else timeout / len(permitted)
                return await self._network.connect_tcp(address, port, part, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        return await self._network.connect_tcp(permitted[-1], port, left, local_address, socket_options)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's interface
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Refuse to connect, because tools must reach no sockets of this machine.

        Raises:
            AddressRefused: always.
        """
        raise AddressRefused("sockets of this machine may not be connected to")


class GuardedTransport(httpx2.AsyncBaseTransport):
    """A transport of `httpx2` clients through `GuardedNetwork`. Environment variables set neither proxies nor keys.

    Args:
        policy: the addresses that are permitted.
        resolve: finds addresses of names.
        tls: verifies certificates; by default against the system's authorities.
    """

    def __init__(
        self, policy: AddressPolicy, *, resolve: Resolver = resolve_with_system, tls: ssl.SSLContext | None = None
    ) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls or httpx2.create_ssl_context(),
            max_connections=MAX_CONNECTIONS,
            keepalive_expiry=KEEP_ALIVE,
            network_backend=GuardedNetwork(policy, resolve),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one HTTP request to a permitted address; return the response, whose body is read as it is iterated.

        Raises:
            AddressRefused: no address of the host is permitted.
            httpx2.TransportError: the connection or the exchange failed.
        """
        url = request.url
        outgoing = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _httpx_errors():
            response = await self._pool.handle_async_request(outgoing)
        assert isinstance(response.stream, AsyncIterable)  # noqa: S101 - of an asynchronous pool
        return httpx2.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_Body(response.stream),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close all HTTP connections of this transport."""
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, stream: AsyncIterable[bytes]) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _httpx_errors():
            async for part in self._stream:
                yield part

    async def aclose(self) -> None:
        """Close the response's body."""
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            await close()


_ERRORS: dict[type[Exception], type[httpx2.TransportError]] = {
    httpcore2.ConnectTimeout: httpx2.ConnectTimeout,
    httpcore2.ReadTimeout: httpx2.ReadTimeout,
    httpcore2.WriteTimeout: httpx2.WriteTimeout,
    httpcore2.PoolTimeout: httpx2.PoolTimeout,
    httpcore2.ConnectError: httpx2.ConnectError,
    httpcore2.ReadError: httpx2.ReadError,
    httpcore2.WriteError: httpx2.WriteError,
    httpcore2.LocalProtocolError: httpx2.LocalProtocolError,
    httpcore2.RemoteProtocolError: httpx2.RemoteProtocolError,
    httpcore2.UnsupportedProtocol: httpx2.UnsupportedProtocol,
}


@contextmanager
def _httpx_errors() -> Iterator[None]:
    """Raise the errors of the connection pool as the errors of `httpx2` with the same names."""
    try:
        yield
    except tuple(_ERRORS) as error:
        raise _ERRORS[type(error)](str(error)) from error
