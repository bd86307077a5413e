"""Starts and calls the confined process that reads the images of prompts (`engine/vision/reader_process.py`)."""

from __future__ import annotations

import asyncio
import math
import subprocess
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from inference_worker.engine.vision.reader_process import (
    WALL_TIME_LIMIT,
    Answer,
    DeclaredArray,
    FirstMessage,
    ImagesRead,
    ImagesRefused,
    ImagesUnread,
    ReaderFailed,
    ReaderReady,
)
from inference_worker.errors import ImageReaderFailed, ImageRejected, UnsupportedModel
from runtime.sandbox import interpreter

START_TIMEOUT = 120.0
"""Seconds that the process may take to load the image processor."""
ANSWER_TIMEOUT = WALL_TIME_LIMIT + 10.0
"""Seconds that the process may take to answer."""


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
        """Return the most tokens that one image can have, if its longest text has `tokens` tokens."""
        return math.ceil(tokens * self.margin)


class ImageReader:
    """Reads the images of prompts in a process of its own, one prompt at a time, and restarts the process."""

    def __init__(self, folder: Path) -> None:
        """`folder` has the model whose image processor is used."""
        self._folder = folder
        self._lock = threading.Lock()
        self._turns = asyncio.Lock()
        self._decoder: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._arrays: list[DeclaredArray] = []

    def start(self) -> ImageTokens:
        """Start the process that reads images, and return which token texts images become for this model.

        Blocks until the process has loaded the model's image processor.

        Raises:
            UnsupportedModel: the model's image processor can't be loaded.
        """
        self.close()
        folder = str(self._folder.absolute())  # the process has another working directory
        process, pipe = interpreter.start_connected("inference_worker.engine.vision.reader_process:main", folder)
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
        self._arrays = first.arrays
        return _tokens(first)

    async def read(self, files: list[bytes]) -> ImagesRead:
        """Have the process read one prompt's image files; return their tokens' texts and the arrays for the model.

        Raises:
            ImageRejected: an image can't be read, or not within the limits of CPU time and memory.
            ImageReaderFailed: the images were not read, for a reason that is not theirs.
        """
        async with self._turns:
            answer = await asyncio.to_thread(self._read, files)
        if isinstance(answer, ImagesUnread):
            raise ImageReaderFailed(answer.reason)
        if isinstance(answer, ImagesRefused):
            if not 0 <= answer.index < len(files):
                raise ImageReaderFailed("it refused an image that was not sent")
            raise ImageRejected(answer.index, answer.reason)
        if len(answer.texts) != len(files) or not self._declared(answer):
            raise ImageReaderFailed("it sent arrays other than those of the model's image processor")
        return answer

    def close(self) -> None:
        """Kill the process that reads images."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            process, pipe = running
            process.kill()
            process.wait()
            pipe.close()

    def _read(self, files: list[bytes]) -> Answer:
        try:
            if self._running is None or self._running[0].poll() is not None:
                self.start()
            if (running := self._running) is None:
                return ImagesUnread("it was closed")
            running[1].send_bytes(msgspec.msgpack.encode(files))
            return self._decoder.decode(self._receive(running[1], ANSWER_TIMEOUT))
        except msgspec.DecodeError:
            return ImagesUnread("its answer is malformed")
        except (EOFError, OSError, TimeoutError, UnsupportedModel) as error:
            self.close()
            return ImagesUnread(str(error) or type(error).__name__)

    def _declared(self, read: ImagesRead) -> bool:
        """Return whether arrays are those that the image processor makes of every prompt's images."""
        if len(read.inputs) != len(self._arrays):
            return False
        return all(declared.admits(array) for declared, array in zip(self._arrays, read.inputs, strict=True))

    def _receive(self, pipe: Connection, timeout: float) -> bytes:
        if not pipe.poll(timeout):
            raise TimeoutError("no answer")
        return pipe.recv_bytes()


def _tokens(ready: ReaderReady) -> ImageTokens:
    return ImageTokens(ready.image_token, ready.longest_text, ready.margin)
