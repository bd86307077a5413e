"""Parses an imported file in a subprocess, because parsing 32 MiB would block the event loop for seconds.

The subprocess writes length-prefixed MessagePack frames to its stdout; a full pipe blocks it (backpressure).
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator

import msgspec

from chat_ui.importing.frames import Frame, ImportRequest, ParserDied

LENGTH_BYTES = 4
_PIECE = 262_144
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


async def parse_in_subprocess(raw: bytes, request: ImportRequest) -> AsyncIterator[Frame]:
    """Parse an export file in a subprocess; yield the frames `Opened` and batches of conversations, or `Refused`.

    Raises:
        ParserDied: the subprocess failed.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "chat_ui.importing", stdin=PIPE, stdout=PIPE, limit=_PIECE
    )
    feeding = asyncio.create_task(_feed(process, raw, request))
    try:
        while (encoded := await _frame(process)) is not None:
            yield _decoder.decode(encoded)
        if await process.wait() != 0:
            raise ParserDied(f"with status {process.returncode}")
    finally:
        feeding.cancel()
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _feed(process: Process, raw: bytes, request: ImportRequest) -> None:
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    encoded = msgspec.msgpack.encode(request)
    process.stdin.write(len(encoded).to_bytes(LENGTH_BYTES, "big") + encoded)
    try:
        for start in range(0, len(raw), _PIECE):
            process.stdin.write(raw[start : start + _PIECE])
            await process.stdin.drain()
        process.stdin.close()
    except ConnectionError:
        return  # the subprocess died; the reader of its stdout raises the error


async def _frame(process: Process) -> bytes | None:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    try:
        length = await process.stdout.readexactly(LENGTH_BYTES)
        return await process.stdout.readexactly(int.from_bytes(length, "big"))
    except asyncio.IncompleteReadError:
        return None
