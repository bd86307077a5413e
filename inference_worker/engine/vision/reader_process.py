"""Process that reads the images of prompts for a worker: a confined child for each prompt decodes untrusted files.

The process itself only loads the model's image processor, once. Importing this module loads neither torch nor Pillow.
"""

from __future__ import annotations

import math
import os
import signal
from contextlib import suppress
from enum import StrEnum
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

import msgspec

from inference_worker.engine_protocol import ModelInput
from inference_worker.errors import ImageRejected, UnsupportedModel
from runtime.parent_death import end_with_parent
from runtime.sandbox import interpreter
from runtime.sandbox.confinement import confine
from runtime.sandbox.limits import Limits, SandboxUnavailable

WALL_TIME_LIMIT = 30.0
"""Wall-clock seconds for the images of one prompt, for machines too busy to provide the CPU seconds."""
LIMITS = Limits(memory_bytes=2 * 2**30, cpu_seconds=10.0)
"""Limits of the child that reads the images of one prompt."""
MAX_PIXELS = 16 * 2**20
"""Largest image: its width times its height."""
MAX_SCANS = 32
"""Most scans of a JPEG file. Each one passes over all pixels; encoders write 10, or 24 of four colours."""
MAX_INPUT_BYTES = 512 * 2**20
"""Largest sum of the arrays of one prompt's images."""
MAX_ANSWER_BYTES = MAX_INPUT_BYTES + 16 * 2**20
"""Largest answer: the arrays and the texts of one prompt's images."""


class Refusal(StrEnum):
    """Why an image is refused, as the client reads it after "it can't be read: "."""

    DAMAGED = "it is damaged, or no PNG, JPEG, WebP or GIF file"
    PIXELS = f"it has more than {MAX_PIXELS} pixels"
    SCANS = f"it is a JPEG file of more than {MAX_SCANS} scans"
    SIZE = "this model can't read images of this size"
    WORK = "it takes too much time or memory to be read"


class DeclaredArray(msgspec.Struct, frozen=True, array_like=True):
    """What the arrays of one name have in common, whichever images they are of."""

    name: str
    dtype: str
    item_bytes: int
    shape: list[int | None]
    """Length of each axis; `None`: it depends on the images."""

    def admits(self, array: ModelInput) -> bool:
        """Return whether `array` of the image process has the declared name, type and shape, and as much data."""
        return (
            (array.name, array.dtype, len(array.shape)) == (self.name, self.dtype, len(self.shape))
            and all(
                length > 0 and length == (length if wanted is None else wanted)
                for length, wanted in zip(array.shape, self.shape, strict=True)
            )
            and len(array.data) == math.prod(array.shape) * self.item_bytes
        )


class ReaderReady(msgspec.Struct, frozen=True, tag="ready"):
    """First message of the process: the image token's text, the longest text of an image, a safety factor, and arrays.

    `arrays` are those that the images of every prompt become.
    """

    image_token: str
    longest_text: str
    margin: float
    arrays: list[DeclaredArray]


class ReaderFailed(msgspec.Struct, frozen=True, tag="failed"):
    """First message of the process if it can't load the image processor; `reason` is for the operator."""

    reason: str


class ImagesRead(msgspec.Struct, frozen=True, tag="read"):
    """The images of one prompt: the texts that replace their image tokens, and the arrays of all of them."""

    texts: list[str]
    inputs: list[ModelInput]


class ImagesRefused(msgspec.Struct, frozen=True, tag="refused"):
    """One image can't be read, and would not be by another worker either."""

    index: int
    reason: Refusal


class ImagesUnread(msgspec.Struct, frozen=True, tag="unread"):
    """The images could not be read, for a reason that is this machine's; `reason` is for the operator."""

    reason: str


FirstMessage = ReaderReady | ReaderFailed
Answer = ImagesRead | ImagesRefused | ImagesUnread


class Processing(Protocol):
    """The part of `ImageProcessing` that reads files."""

    def process(self, files: list[bytes]) -> tuple[list[str], list[ModelInput]]:
        """Return the texts and the arrays of one prompt's image files, as `ImageProcessing.process` does.

        Raises:
            ImageRejected: a file can't be read.
        """


def main(folder: str) -> None:
    """Run the process that reads images: load the image processor of the model in `folder`, then answer the worker.

    The first message reports the processor or why it can't be loaded. Ends when the worker closes the connection.
    """
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent ends this one
    from inference_worker.engine.vision.image_processing import ImageProcessing  # noqa: PLC0415 - loads torch

    pipe = interpreter.parent_connection()
    with suppress(EOFError, OSError):
        try:
            processing = ImageProcessing.load(Path(folder))
            ready = processing.measure()
        except (UnsupportedModel, MemoryError, ValueError, LookupError, TypeError, AttributeError) as error:
            pipe.send_bytes(msgspec.msgpack.encode(ReaderFailed(str(error) or type(error).__name__)))
            return
        pipe.send_bytes(msgspec.msgpack.encode(ready))
        answer_prompts(processing, pipe)


def answer_prompts(processing: Processing, pipe: Connection) -> None:
    """Read the images of each prompt from `pipe` in a confined child, one prompt at a time, and send the answer.

    Runs until the worker closes `pipe`.

    Raises:
        EOFError, OSError: the worker has closed the connection.
    """
    decoder = msgspec.msgpack.Decoder(list[bytes])
    while True:
        pipe.send_bytes(_read_in_child(processing, decoder.decode(pipe.recv_bytes())))


def _read_in_child(processing: Processing, files: list[bytes]) -> bytes:
    parent_end, child_end = Pipe(duplex=False)
    child = os.fork()
    if not child:
        _run_child(processing, files, child_end)
    child_end.close()
    try:
        if not parent_end.poll(WALL_TIME_LIMIT):
            return msgspec.msgpack.encode(ImagesUnread("the machine had too little CPU time for them"))
        return parent_end.recv_bytes(MAX_ANSWER_BYTES)
    except (EOFError, OSError):  # it exceeded a limit, or crashed
        return msgspec.msgpack.encode(ImagesRefused(0, Refusal.WORK))
    finally:
        parent_end.close()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _run_child(processing: Processing, files: list[bytes], results: Connection) -> None:
    """Read the images in the child process, and exit."""
    try:
        results.send_bytes(msgspec.msgpack.encode(_answer(processing, files, results.fileno())))
    finally:
        os._exit(0)  # also after an exception: a missing answer counts as a refusal


def _answer(processing: Processing, files: list[bytes], results: int) -> Answer:
    """Confine this process, but for its pipe of `results`, and read the images."""
    try:
        confine(LIMITS, [results])
    except SandboxUnavailable as error:
        return ImagesUnread(f"their process can't be confined: {error}")
    try:
        texts, inputs = processing.process(files)
    except ImageRejected as error:
        return ImagesRefused(error.index, Refusal(error.reason))
    if sum(len(each.data) for each in inputs) > MAX_INPUT_BYTES:
        return ImagesRefused(0, Refusal.WORK)
    return ImagesRead(texts, inputs)
