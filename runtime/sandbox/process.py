"""Runs one piece of untrusted work in a fresh, confined interpreter, and yields the messages that it sends.

The process has an empty environment and an empty working directory, and no open files but its order (a pipe), the
source (read-only) and its output (a pipe). A full pipe blocks it, so a slow caller is not flooded.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator

from runtime.sandbox.child import LENGTH_BYTES, NO_SOURCE, OUT_OF_MEMORY, UNCONFINED
from runtime.sandbox.limits import LimitExceeded, SandboxError, SandboxUnavailable, WorkFailed, WorkLimits

_START = "import sys; sys.path[:] = sys.argv[5:]; from runtime.sandbox.child import main; main(*sys.argv[1:5])"
_PIECE = 262_144


async def run(
    work: str, limits: WorkLimits, order: bytes = b"", source: int = NO_SOURCE
) -> AsyncGenerator[bytes, None]:
    """Run the function `work` (`MODULE:NAME`, see `child.Work`) confined; yield its messages. Close to cancel it.

    `source` is the descriptor of an open file, which the work reads from its start and can't write.

    Raises:
        SandboxUnavailable: this machine can't confine processes.
        LimitExceeded: the work exceeded one of `limits`; messages before are complete.
        WorkFailed: the work raised an exception or crashed.
    """
    read_only = source if source == NO_SOURCE else os.open(f"/proc/self/fd/{source}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        process = await _start(work, limits, read_only)
    finally:
        if read_only != NO_SOURCE:
            os.close(read_only)
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


async def _start(work: str, limits: WorkLimits, source: int) -> Process:
    arguments = [work, str(limits.memory_bytes), str(limits.cpu_seconds), str(source)]
    paths = [path or os.getcwd() for path in sys.path]
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",  # ignores the environment, and the user's packages
        "-c",
        _START,
        *arguments,
        *paths,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        cwd="/",
        env={},
        pass_fds=() if source == NO_SOURCE else (source,),
        limit=_PIECE,
    )


def _send_order(process: Process, order: bytes) -> None:
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    if process.stdin.is_closing():  # the process was killed at its start: its exit status tells
        return
    process.stdin.write(order)
    process.stdin.close()


async def _receive(process: Process, most: int) -> bytes | None:
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


async def _end(process: Process) -> None:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    if process.returncode is None:
        process.kill()
    while await process.stdout.read(_PIECE):  # a full pipe would keep the transport open
        pass
    await process.wait()
