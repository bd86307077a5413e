"""Checks by port or URL whether started processes are ready, and finds free ports for new ones."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

TIMEOUT = 2.0
FIRST_PORT, MIN_PORTS, LAST_PORT = 20_000, 1_000, 65_535
"""First port of our range, its minimum size, and the last port."""
FIRST_EPHEMERAL = 49_152
"""First ephemeral port by RFC 6335, section 6; on Linux the kernel's setting is read."""
PID_STRIDE = 97
"""Distance between the first ports of two processes with consecutive pids."""
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def get_json(url: str, *, headers: dict[str, str] | None = None) -> dict[str, Any] | None:
    """Send a GET request to a loopback URL.

    Return the JSON object of the response, or `None` if there is no such response.
    """
    try:
        request = urllib.request.Request(url, headers=headers or {})  # noqa: S310 - always http://127.0.0.1
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310
            answer = json.load(response)
    except (OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None


def _is_ok(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response:  # noqa: S310 - always http://127.0.0.1
            return bool(response.status == 200)
    except OSError:
        return False


def url_is_ok(url: str) -> Callable[[], Awaitable[bool]]:
    """Return an async readiness check, which is true when a GET of `url` is answered with status 200."""

    async def ready() -> bool:
        return await asyncio.to_thread(_is_ok, url)

    return ready


def port_answers_now(port: int, greeting: bytes, answer: bytes) -> bool:
    """Send `greeting` to a loopback port; return whether the response begins with `answer`."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as connection:
            connection.sendall(greeting)
            return connection.recv(len(answer)) == answer
    except OSError:
        return False


def port_answers(port: int, greeting: bytes, answer: bytes) -> Callable[[], Awaitable[bool]]:
    """Return an async readiness check: whether a loopback port answers `greeting` by bytes that begin with `answer`."""

    async def ready() -> bool:
        return await asyncio.to_thread(port_answers_now, port, greeting, answer)

    return ready


def is_free(host: str, port: int) -> bool:
    """Return whether a server could listen on TCP port `port` of address `host` now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a free loopback port, another at each call, outside the ephemeral range of outgoing connections."""
    return next(port for port in _ports if is_free("127.0.0.1", port))


def _non_ephemeral_ports() -> range:
    """Return the ports below the kernel's ephemeral range, if there are enough."""
    try:
        first_ephemeral = int(_EPHEMERAL_RANGE.read_text().split()[0])
    except OSError:
        first_ephemeral = FIRST_EPHEMERAL
    return range(FIRST_PORT, first_ephemeral if first_ephemeral >= FIRST_PORT + MIN_PORTS else LAST_PORT)


def _rotated_by_pid(ports: Sequence[int]) -> Iterator[int]:
    """Cycle through the ports from an offset by pid, so that concurrent processes do not choose the same."""
    offset = os.getpid() * PID_STRIDE % len(ports)
    return itertools.cycle([*ports[offset:], *ports[:offset]])


_ports = _rotated_by_pid(_non_ephemeral_ports())


def status_is_started(url: str) -> Callable[[], Awaitable[bool]]:
    """Return an async readiness check: whether `state` in the `/status` at `url` is not `starting` any more."""

    async def ready() -> bool:
        status = await asyncio.to_thread(get_json, url)
        return status is not None and status.get("state") not in (None, "starting")

    return ready
