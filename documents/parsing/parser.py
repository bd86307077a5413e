"""Parses files in sandboxed processes: parsing would block the event loop, and the files are untrusted."""

from __future__ import annotations

import os
from contextlib import aclosing
from dataclasses import replace
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
from documents.parsing.frames import Frame, Order, Parsed, Refusal, Refused
from runtime.fair_slots import FairSlots
from runtime.sandbox.fork_server import ForkServer
from runtime.sandbox.limits import LimitExceeded, SandboxUnavailable, WorkFailed, WorkLimits

MAX_FILE_BYTES = 512 * 2**20
"""Size of a file that is read, at most."""
PROCESSES = 2
"""Files that are parsed at the same time; further ones wait."""
WORK = "documents.parsing.reader:work"
RECOGNISING_WORK = "documents.parsing.reader:recognising_work"
LIMITS = WorkLimits(
    memory_bytes=2**30,
    cpu_seconds=90.0,
    output_bytes=96 * 2**20,
    message_bytes=96 * 2**20,
    wait_seconds=600.0,
)
"""Limits of parsing one file."""
RECOGNITION_SECONDS = 300.0
"""CPU time of recognising the text of one file's scanned pages, after which further pages are not read."""
NO_LANGUAGES = "none"
"""Languages of text in scanned pages that mean: no text is recognised."""
_LATE_SECONDS = 60.0
"""CPU time after that of recognition in which the process ends by itself: that of one page at most."""

_UNAVAILABLE: Refusal = "recognition_unavailable"
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

    Text in the images of scanned pages is recognised in children of another process, which starts with the first of
    them; one file at a time, so that further files are parsed meanwhile.

    `limits` are those of parsing one file. `languages` are those of text in images (see `Tesseract`), `NO_LANGUAGES`
    for no recognition; `recognition_seconds` is its CPU time, beyond that of `limits`.
    """

    def __init__(
        self,
        limits: WorkLimits = LIMITS,
        *,
        languages: str = "",
        recognition_seconds: float = RECOGNITION_SECONDS,
    ) -> None:
        self._server = ForkServer(WORK)
        self._limits = limits
        self._slots = FairSlots(PROCESSES)
        self._recogniser = None if languages == NO_LANGUAGES else ForkServer(RECOGNISING_WORK, languages)
        self._recognition_seconds = recognition_seconds
        cpu_seconds = limits.cpu_seconds + recognition_seconds + _LATE_SECONDS
        wait_seconds = limits.wait_seconds * cpu_seconds / limits.cpu_seconds
        self._recognition_limits = replace(limits, cpu_seconds=cpu_seconds, wait_seconds=wait_seconds)
        self._recognition_slots = FairSlots(1)

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
        descriptor = file.fileno()
        try:
            async with self._slots.take(owner):
                frame = await _run(self._server, self._limits, Order(filename), descriptor)
            if frame.scanned and self._recogniser is not None:
                async with self._recognition_slots.take(owner):
                    frame = await self._recognised(self._recogniser, frame, filename, descriptor)
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
        if self._recogniser is not None:
            self._recogniser.close()

    async def _recognised(
        self, server: ForkServer, plain: Parsed | Refused, filename: str, descriptor: int
    ) -> Parsed | Refused:
        """Return the file read with the text of its scanned pages; `plain` with the reason if that fails."""
        order = Order(filename, self._recognition_seconds)
        try:
            frame = await _run(server, self._recognition_limits, order, descriptor)
            if isinstance(frame, Parsed) or frame.refusal != _UNAVAILABLE:
                return frame
            reason = frame.sentence
        except LimitExceeded as error:
            reason = f"Recognising the text of its images takes more {error} than it may."
        except (WorkFailed, msgspec.DecodeError) as error:
            _log.warning("text recognition failed", error=str(error))
            reason = "Recognising the text of its images failed."
        if isinstance(plain, Refused):
            return msgspec.structs.replace(plain, sentence=f"{plain.sentence} {reason}")
        document = msgspec.structs.replace(plain.document, warnings=(*plain.document.warnings, reason))
        return msgspec.structs.replace(plain, document=document)


async def _run(server: ForkServer, limits: WorkLimits, order: Order, descriptor: int) -> Frame:
    async with aclosing(server.run(limits, msgspec.msgpack.encode(order), descriptor)) as frames:
        async for frame in frames:
            return _decoder.decode(frame)
    raise WorkFailed("without a message")
