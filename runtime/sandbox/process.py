"""Runs one piece of untrusted work in a fresh, confined interpreter, and yields the messages that it sends.

The process has an empty environment and an empty working directory, and no open files but its order (a pipe), the
source (read-only) and its output (a pipe). A full pipe blocks it, so a slow caller is not flooded.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import aclosing

from runtime.sandbox import interpreter
from runtime.sandbox.child import NO_SOURCE
from runtime.sandbox.exchange import PIECE, exchange
from runtime.sandbox.limits import WorkLimits


async def run(
    work: str, limits: WorkLimits, order: bytes = b"", source: int = NO_SOURCE
) -> AsyncGenerator[bytes, None]:
    """Run one piece of work, with input `order`, in a new confined interpreter; yield its messages. Close to cancel it.

    `work` is a function's `MODULE:NAME` (see `child.Work`). `source` is the descriptor of an open file, which the work
    reads from its start and can't write.

    Raises:
        SandboxUnavailable: this machine can't confine processes.
        LimitExceeded: the work exceeded one of `limits`; messages before are complete.
        WorkFailed: the work raised an exception or crashed.
    """
    read_only = source if source == NO_SOURCE else open_for_reading(source)
    try:
        process = await _start(work, limits, read_only)
    finally:
        if read_only != NO_SOURCE:
            os.close(read_only)
    async with aclosing(exchange(process, limits, order)) as messages:
        async for message in messages:
            yield message


def open_for_reading(descriptor: int) -> int:
    """Open the file of an open descriptor anew, so that it can only be read, from its start; return the descriptor."""
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)


async def _start(work: str, limits: WorkLimits, source: int) -> Process:
    arguments = [work, str(limits.memory_bytes), str(limits.cpu_seconds), str(source)]
    return await asyncio.create_subprocess_exec(
        *interpreter.command("runtime.sandbox.child:main", *arguments),
        **interpreter.EMPTY,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        pass_fds=() if source == NO_SOURCE else (source,),
        limit=PIECE,
    )
