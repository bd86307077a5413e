"""Generates load of chat completions or responses on a gateway with little CPU time, as an open or a closed loop.

It has one protocol object per connection and no task per request.

It shares its cores with the server, so it parses no JSON: it searches for frames, for the first content that is not
empty, and for the end. Times are `time.perf_counter()` seconds; an open-loop request begins when it was *due*, so that
a server that makes its clients wait can't hide it.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

_FIRST_CONTENT = re.compile(rb'"(?:content|delta)":\s?"[^"]')
_CONTENT = (b'"content":"', b'"delta":"')
"""Text of a chunk of chat completions, and of an event of responses."""
_EMPTY_CONTENT = b'"content":""'
_LENGTH = re.compile(rb"content-length: (\d+)")
_RETRY_AFTER = re.compile(rb"retry-after: (\d+)")
_TOKENS = re.compile(rb'"(?:completion|output)_tokens":\s?(\d+)')

PROMPT = "Count for me, please."
"""Message of every request."""


@dataclass
class Exchange:
    """One request and its response."""

    due: float
    first: float | None = None
    """Time at which the first content arrived; that of a response without a stream arrives at its end."""
    end: float | None = None
    events: int = 0
    """Number of events with text."""
    tokens: int = 0
    """Number of tokens, as counted by the server in `usage`."""
    error: str = ""
    """The error, or the status code of a rejection, which has an `end` too."""
    retry_after: int | None = None
    """Seconds of a rejection's Retry-After header."""


@dataclass
class Target:
    """The server, key and request of a load."""

    host: str
    port: int
    key: str
    model: str
    max_tokens: int = 16

    @property
    def path(self) -> str:
        """Path of the request's URL."""
        return "/v1/chat/completions"

    def fields(self) -> dict[str, Any]:
        """Return the fields of the request's body, besides the model: those of a streamed chat completion."""
        return {
            "messages": [{"role": "user", "content": PROMPT}],
            "max_tokens": self.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def request(self) -> bytes:
        """Return the bytes of one HTTP request: request line, headers and body."""
        body = json.dumps({"model": self.model, **self.fields()})
        return (
            f"POST {self.path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            f"Authorization: Bearer {self.key}\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        ).encode()


class Connection(asyncio.Protocol):
    """One keep-alive connection with one exchange at a time."""

    def __init__(self, on_free: Callable[[Connection], None]) -> None:
        self._on_free = on_free
        self._transport: asyncio.WriteTransport
        self._exchange: Exchange | None = None
        self._unread = b""
        self._done = False
        self.events = 0
        """Number of events with text since the connection was made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the new connection for `send`; asyncio calls this."""
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's derive from nothing of asyncio's

    @property
    def open(self) -> bool:
        """Whether the connection is open, so that it can carry another request."""
        return not self._transport.is_closing()

    def send(self, request: bytes, exchange: Exchange) -> None:
        """Send the bytes of a request on this free connection; the times of its response are recorded in `exchange`."""
        self._exchange, self._unread, self._done = exchange, b"", False
        self._transport.write(request)

    def close(self) -> None:
        """Abort the connection, and with it the request that it carries."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Record arrived bytes of a response in the current exchange; asyncio calls this.

        At the response's end the connection is free for another request.
        """
        exchange = self._exchange
        if exchange is None:
            return
        data = self._unread + data
        whole = data.rfind(b"\n\n") + 2
        if whole > 1:
            self._read_frames(data[:whole], exchange)
            data = data[whole:]
        self._unread = data
        if self._done and data.endswith(b"0\r\n\r\n"):
            self._end(exchange)
        elif data.startswith(b"HTTP/1.1 "):
            self._read_whole(data, exchange)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the current exchange, if there is one, with an error; asyncio calls this when the connection is lost."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.error = exchange.error or f"connection lost ({exc})"
        self._on_free(self)

    def _read_frames(self, frames: bytes, exchange: Exchange) -> None:
        events = sum(map(frames.count, _CONTENT)) - frames.count(_EMPTY_CONTENT)
        exchange.events += events
        self.events += events
        if exchange.first is None and _FIRST_CONTENT.search(frames):
            exchange.first = time.perf_counter()
        if b'"usage":{' in frames and (usage := _TOKENS.search(frames)):
            exchange.tokens = int(usage[1])
        self._done = self._done or b"data: [DONE]" in frames

    def _read_whole(self, data: bytes, exchange: Exchange) -> None:
        head, found, body = data.partition(b"\r\n\r\n")
        head = head.lower()
        if not found or not (length := _LENGTH.search(head)) or len(body) < int(length[1]):
            return
        if (status := head[9:12]) == b"200":
            exchange.first = time.perf_counter()
            exchange.tokens = int(usage[1]) if (usage := _TOKENS.search(body)) else 0
        else:
            exchange.error = status.decode()
            exchange.retry_after = int(wait[1]) if (wait := _RETRY_AFTER.search(head)) else None
        if b"connection: close" in head:
            self._transport.close()
        self._end(exchange)

    def _end(self, exchange: Exchange) -> None:
        exchange.end = time.perf_counter()
        self._exchange = None
        self._on_free(self)


@dataclass
class Client:
    """Loads one target over connections that are opened as needed and reused."""

    target: Target
    exchanges: list[Exchange] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)
    _free: list[Connection] = field(default_factory=list)
    _opening: set[asyncio.Task[None]] = field(default_factory=set)
    _request: bytes = b""
    _on_end: Callable[[], None] | None = None

    @property
    def events(self) -> int:
        """Number of events with text that have arrived on all connections so far."""
        return sum(connection.events for connection in self.connections)

    async def open_connections(self, count: int) -> None:
        """Open `count` idle connections to the target, which the first requests then use; call it before any load."""
        self._request = self.target.request()
        for _ in range(count):
            self._free.append(await self._connect())

    async def open_loop(self, rate: float, seconds: float, *, seed: int = 1, drain_seconds: float = 10.0) -> None:
        """Send requests at Poisson arrivals of `rate` per second for `seconds`, without waiting for earlier answers.

        Then wait up to `drain_seconds` for all answers. Times are recorded in `exchanges`.
        """
        rng = random.Random(seed)
        due = time.perf_counter()
        until = due + seconds
        while (due := due + rng.expovariate(rate)) < until:
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            self._begin(due)
        await self._settled(drain_seconds)

    async def closed_loop(self, clients: int, seconds: float) -> None:
        """Send requests from `clients` concurrent clients for `seconds`, each its next one when its last is answered.

        Then wait for the open answers. Times are recorded in `exchanges`.
        """
        self._on_end = lambda: self._begin(time.perf_counter())
        for _ in range(clients):
            self._begin(time.perf_counter())
        await asyncio.sleep(seconds)
        self._on_end = None
        await self._settled(10.0)

    async def hold_open(self, streams: int) -> None:
        """Start `streams` streamed requests and return; each that ends is replaced by a new one, until `close`."""
        self._on_end = lambda: self._begin(time.perf_counter())
        for _ in range(streams):
            self._begin(time.perf_counter())
            await asyncio.sleep(0.002)

    async def burst(self, requests: int, *, drain_seconds: float) -> None:
        """Send `requests` at once, each on a connection of its own, and wait up to `drain_seconds` for all answers.

        Times are recorded in `exchanges`.
        """
        self._request = self.target.request()
        for _ in range(requests):
            self._begin(time.perf_counter())
        await self._settled(drain_seconds)

    def close(self) -> None:
        """Abort all connections with their requests, and start no new ones."""
        self._on_end = None
        for connection in self.connections:
            connection.close()

    def _begin(self, due: float) -> None:
        exchange = Exchange(due)
        self.exchanges.append(exchange)
        while self._free:
            connection = self._free.pop()
            if connection.open:
                connection.send(self._request, exchange)
                return
        task = asyncio.create_task(self._begin_on_new(exchange))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _begin_on_new(self, exchange: Exchange) -> None:
        try:
            (await self._connect()).send(self._request, exchange)
        except OSError as error:
            exchange.error = str(error)

    async def _connect(self) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(self._freed), self.target.host, self.target.port
        )
        self.connections.append(connection)
        return connection

    def _freed(self, connection: Connection) -> None:
        if connection.open:
            self._free.append(connection)
        if self._on_end is not None:
            self._on_end()

    async def _settled(self, seconds: float) -> None:
        until = time.perf_counter() + seconds
        for exchange in self.exchanges:
            while not exchange.end and not exchange.error and time.perf_counter() < until:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
