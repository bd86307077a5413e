"""The worker's side of the process that reads the images of prompts (`engine/vision/reader_process.py`)."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import msgspec
import structlog

from inference_worker.engine.vision.reader_process import (
    TOO_LARGE,
    WALL_TIME_LIMIT,
    Answer,
    FirstMessage,
    ImagesRead,
    ImagesRefused,
    ReaderFailed,
    ReaderReady,
    serve,
)
from inference_worker.errors import ImageRejected, UnsupportedModel

START_TIMEOUT = 120.0
"""Seconds that the process may take to load the image processor."""
ANSWER_TIMEOUT = WALL_TIME_LIMIT + 10.0
"""Seconds that the process may take to answer."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ImageTokens:
    """What the image processor says of a model's images.

    Attributes:
        placeholder: text of the token that chat templates write for an image.
        longest_text: the longest text that replaces it, found by trying images of extreme sizes.
        margin: factor by which another image's text may be longer.
    """

    placeholder: str
    longest_text: str
    margin: float

    def bound(self, tokens: int) -> int:
        """Return the most tokens of an image, if `longest_text` has `tokens` tokens."""
        return math.ceil(tokens * self.margin)


class ImageReader:
    """Reads the images of prompts in a process of its own, one prompt at a time, and restarts the process."""

    def __init__(self, folder: Path) -> None:
        """`folder` has the model whose image processor is used."""
        self._folder = folder
        self._lock = threading.Lock()
        self._turns = asyncio.Lock()
        self._decoder: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
        self._running: tuple[BaseProcess, Connection] | None = None

    def start(self) -> ImageTokens:
        """Start the process and return what it says of the model's images; blocks until it has loaded them.

        Raises:
            UnsupportedModel: the model's image processor can't be loaded.
        """
        self.close()
        context = multiprocessing.get_context("spawn")  # this process has threads
        pipe, child_end = context.Pipe()
        process = context.Process(target=serve, args=(str(self._folder), child_end), name="images", daemon=True)
        process.start()
        child_end.close()
        with self._lock:
            self._running = (process, pipe)
        try:
            first: FirstMessage = msgspec.msgpack.decode(self._receive(pipe, START_TIMEOUT), type=FirstMessage)
        except (EOFError, OSError, TimeoutError) as error:
            self.close()
            raise UnsupportedModel("the image processor did not start") from error
        if isinstance(first, ReaderFailed):
            self.close()
            raise UnsupportedModel(first.reason)
        return _tokens(first)

    async def read(self, files: list[bytes]) -> ImagesRead:
        """Return the texts and arrays of the images of one prompt.

        Raises:
            ImageRejected: an image can't be read within the limits of time and memory.
        """
        async with self._turns:
            answer = await asyncio.to_thread(self._read, files)
        if isinstance(answer, ImagesRefused):
            raise ImageRejected(answer.index, answer.reason)
        return answer

    def close(self) -> None:
        """Kill the process."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            process, pipe = running
            process.kill()
            process.join()
            pipe.close()

    def _read(self, files: list[bytes]) -> Answer:
        try:
            if self._running is None or not self._running[0].is_alive():
                self.start()
            if (running := self._running) is None:  # closed meanwhile
                return ImagesRefused(0, TOO_LARGE)
            running[1].send_bytes(msgspec.msgpack.encode(files))
            return self._decoder.decode(self._receive(running[1], ANSWER_TIMEOUT))
        except (EOFError, OSError, TimeoutError, UnsupportedModel) as error:
            _log.error("the image process does not answer", reason=str(error) or type(error).__name__)
            self.close()
            return ImagesRefused(0, TOO_LARGE)

    def _receive(self, pipe: Connection, timeout: float) -> bytes:
        if not pipe.poll(timeout):
            raise TimeoutError("no answer")
        return pipe.recv_bytes()


def _tokens(ready: ReaderReady) -> ImageTokens:
    return ImageTokens(ready.image_token, ready.longest_text, ready.margin)
