"""Parses files in sandboxed processes: parsing would block the event loop, and the files are untrusted."""

from __future__ import annotations

import os
from contextlib import aclosing
from typing import BinaryIO

import msgspec
import structlog

from documents.content import Document
from documents.errors import (
    DamagedFile,
    EncryptedFile,
    FileRefused,
    FileTooLarge,
    ParserUnavailable,
    UnsupportedFormat,
)
from documents.parsing.frames import Frame, Parsed, Refusal
from runtime.fair_slots import FairSlots
from runtime.sandbox.fork_server import ForkServer
from runtime.sandbox.limits import LimitExceeded, SandboxUnavailable, WorkFailed, WorkLimits

MAX_FILE_BYTES = 512 * 2**20
"""Size of a file that is read, at most."""
PROCESSES = 2
"""Files that are parsed at the same time; further ones wait."""
WORK = "documents.parsing.reader:work"
LIMITS = WorkLimits(
    memory_bytes=2**30,
    cpu_seconds=90.0,
    output_bytes=96 * 2**20,
    message_bytes=96 * 2**20,
    wait_seconds=600.0,
)
"""Limits of parsing one file."""

_ERRORS: dict[Refusal, type[FileRefused]] = {
    "unsupported": UnsupportedFormat,
    "encrypted": EncryptedFile,
    "damaged": DamagedFile,
    "too_large": FileTooLarge,
}
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)
_log = structlog.get_logger(__name__)


class DocumentParser:
    """Parses files in confined children of one process. Use it on one event loop, and close it at the end.

    `limits` are those of parsing one file.
    """

    def __init__(self, limits: WorkLimits = LIMITS) -> None:
        self._server = ForkServer(WORK)
        self._limits = limits
        self._slots = FairSlots(PROCESSES)

    async def parse(self, file: BinaryIO, filename: str, *, owner: str = "") -> Document:
        """Parse an open file, one with a descriptor, and return its document. Waits while `PROCESSES` files are parsed.

        The content decides the format; `filename` does so only among formats that are plain text. Files that wait are
        parsed for their owners in turn.

        Raises:
            FileRefused: the file is too large, damaged, encrypted or of an unknown format.
            ParserUnavailable: this machine can't confine a parser process.
        """
        if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
            raise FileTooLarge(f"The file is larger than {MAX_FILE_BYTES // 2**20} MiB.")
        try:
            async with self._slots.take(owner):
                frame = await self._run(file.fileno(), filename)
        except LimitExceeded as error:
            raise FileTooLarge(f"Reading the file takes more {error} than it may.") from error
        except (WorkFailed, msgspec.DecodeError) as error:
            raise DamagedFile("The file can't be read: its parser ended early.") from error
        except SandboxUnavailable as error:
            raise ParserUnavailable(str(error)) from error
        if isinstance(frame, Parsed):
            return frame.document
        if frame.detail:
            _log.info("parser library failed", error=frame.detail)
        raise _ERRORS[frame.refusal](frame.sentence)

    def close(self) -> None:
        """End the processes that parse files."""
        self._server.close()

    async def _run(self, descriptor: int, filename: str) -> Frame:
        async with aclosing(self._server.run(self._limits, filename.encode("utf-8", "replace"), descriptor)) as frames:
            async for frame in frames:
                return _decoder.decode(frame)
        raise WorkFailed("without a message")
