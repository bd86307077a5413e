"""Parses an imported file in a sandboxed process: parsing would block the event loop, and the file is untrusted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import BinaryIO

import msgspec

from chat_ui.importing.frames import (
    FileTooCostly,
    Frame,
    ImportRequest,
    ParserDied,
    ParserUnavailable,
)
from runtime.sandbox import process
from runtime.sandbox.limits import LimitExceeded, SandboxUnavailable, WorkFailed, WorkLimits

WORK = "chat_ui.importing.parser:encoded_frames"
LIMITS = WorkLimits(
    memory_bytes=768 * 2**20,
    cpu_seconds=60.0,
    output_bytes=2**30,
    message_bytes=64 * 2**20,
    wait_seconds=180.0,
)
"""Limits of parsing one file. An export of 32 MiB with messages of a few words needs about two thirds of the memory."""

_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


async def parse_in_sandbox(file: BinaryIO, request: ImportRequest) -> AsyncIterator[Frame]:
    """Parse an export file in a sandboxed process; yield `Opened` and batches of conversations, or `Refused`.

    The file may be closed after the first frame.

    Raises:
        FileTooCostly: the process exceeded a limit of memory, time or output.
        ParserDied: the process exited before the end of the file, or sent an invalid message.
        ParserUnavailable: this machine can't confine a parser process.
    """
    order = msgspec.msgpack.encode(request)
    try:
        async with aclosing(process.run(WORK, LIMITS, order, file.fileno())) as messages:
            async for message in messages:
                yield _decoder.decode(message)
    except LimitExceeded as error:
        raise FileTooCostly(str(error)) from error
    except (WorkFailed, msgspec.DecodeError) as error:
        raise ParserDied(str(error)) from error
    except SandboxUnavailable as error:
        raise ParserUnavailable(str(error)) from error
