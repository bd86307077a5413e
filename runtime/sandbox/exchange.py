"""Talks to a sandboxed process: sends its order (bytes), and yields its messages within limits of size and time."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncGenerator
from typing import Protocol

from runtime.sandbox.child import LENGTH_BYTES, OUT_OF_MEMORY, UNCONFINED
from runtime.sandbox.limits import LimitExceeded, SandboxError, SandboxUnavailable, WorkFailed, WorkLimits

PIECE = 262_144
"""Most bytes that are read from a process at once."""


class Running(Protocol):
    """Interface of a sandboxed process: `asyncio.subprocess.Process`, or a child of a `ForkServer`."""

    @property
    def returncode(self) -> int | None:
        """Exit status of the sandboxed process, or minus the signal that ended it; `None` while it runs."""

    @property
    def stdin(self) -> OrderWriter | None:
        """Pipe to the sandboxed process for its order; `None` if it has no such pipe."""

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        """Pipe from the sandboxed process with its messages; `None` if it has no such pipe."""

    async def wait(self) -> int:
        """Wait until the sandboxed process has ended, and return its exit status."""
        ...

    def kill(self) -> None:
        """End the sandboxed process at once (SIGKILL), without waiting for its end."""


class OrderWriter(Protocol):
    """Interface of the pipe by which a sandboxed process gets its order: asyncio's stream writer or transport."""

    def is_closing(self) -> bool:
        """Return whether the pipe to the sandboxed process is closed or closing."""
        ...

    def write(self, data: bytes, /) -> None:
        """Send bytes of the order to the sandboxed process, without waiting."""

    def close(self) -> None:
        """Close the pipe after all bytes written so far were sent, which ends the order."""


async def exchange(process: Running, limits: WorkLimits, order: bytes) -> AsyncGenerator[bytes, None]:
    """Send a sandboxed process its `order` (bytes) and yield its messages.

    Kill the process when the generator is closed.

    Raises:
        SandboxUnavailable: this machine can't confine processes.
        LimitExceeded: the work exceeded one of `limits`; messages before are complete.
        WorkFailed: the work raised an exception or crashed.
    """
    try:
        _send_order(process, order)
        left_bytes, left_seconds = limits.output_bytes, limits.wait_seconds
        while True:
            began = time.monotonic()
            try:
                async with asyncio.timeout(left_seconds):
                    message = await _receive(process, min(left_bytes, limits.message_bytes))
            except TimeoutError:
                raise LimitExceeded("time") from None
            left_seconds -= time.monotonic() - began
            if message is None:
                return
            left_bytes -= len(message) + LENGTH_BYTES
            yield message
    finally:
        await _end(process)


def _send_order(process: Running, order: bytes) -> None:
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    if process.stdin.is_closing():  # the process was killed at its start: its exit status tells
        return
    process.stdin.write(order)
    process.stdin.close()


async def _receive(process: Running, most: int) -> bytes | None:
    """Return the next message of at most `most` bytes; `None` after the last one."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    try:
        length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "big")
        if length + LENGTH_BYTES > most:
            raise LimitExceeded("output")
        return await process.stdout.readexactly(length)
    except asyncio.IncompleteReadError as error:
        failure = _failure(await process.wait(), cut=bool(error.partial) or error.expected != LENGTH_BYTES)
        if failure is not None:
            raise failure from None
        return None


def _failure(status: int, *, cut: bool) -> SandboxError | None:
    """Return what an exit status means; `None`: the work has ended. `cut`: its last message is not complete."""
    if status == 0 and not cut:
        return None
    if status == UNCONFINED:
        return SandboxUnavailable("the process could not be confined")
    if status == OUT_OF_MEMORY:
        return LimitExceeded("memory")
    if -status in (signal.SIGPROF, signal.SIGXCPU):
        return LimitExceeded("CPU time")
    return WorkFailed(f"with status {status}")


async def _end(process: Running) -> None:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    if process.returncode is None:
        process.kill()
    while await process.stdout.read(PIECE):  # a full pipe would keep the transport open
        pass
    await process.wait()
