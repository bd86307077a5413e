"""Process that reads the images of prompts: it forks a confined child for each prompt, which decodes untrusted files.

The process itself only loads the model's image processor, once. Importing this module loads neither torch nor Pillow.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

import msgspec

from inference_worker.engine_protocol import ModelInput
from inference_worker.errors import ImageRejected, UnsupportedModel
from runtime.parent_death import end_with_parent
from runtime.sandbox.confinement import confine
from runtime.sandbox.limits import Limits, SandboxUnavailable

WALL_TIME_LIMIT = 30.0
"""Wall-clock seconds for the images of one prompt."""
LIMITS = Limits(memory_bytes=2 * 2**30, cpu_seconds=20.0)
"""Limits of the child that reads the images of one prompt."""
MAX_INPUT_BYTES = 512 * 2**20
"""Largest sum of the arrays of one prompt's images."""

TOO_LARGE = "it takes too much time or memory to be read"


class ReaderReady(msgspec.Struct, frozen=True, tag="ready"):
    """First message of the process: the image token's text, the longest text of an image, and a safety factor."""

    image_token: str
    longest_text: str
    margin: float


class ReaderFailed(msgspec.Struct, frozen=True, tag="failed"):
    """First message of the process if it can't load the image processor; `reason` is for the operator."""

    reason: str


class ImagesRead(msgspec.Struct, frozen=True, tag="read"):
    """The images of one prompt: the texts that replace their image tokens, and the arrays of all of them."""

    texts: list[str]
    inputs: list[ModelInput]


class ImagesRefused(msgspec.Struct, frozen=True, tag="refused"):
    """One image can't be read; `reason` is for the client."""

    index: int
    reason: str


FirstMessage = ReaderReady | ReaderFailed
Answer = ImagesRead | ImagesRefused


class Processing(Protocol):
    """The part of `ImageProcessing` that reads files."""

    def process(self, files: list[bytes]) -> tuple[list[str], list[ModelInput]]:
        """Return texts and arrays of image files; raise `ImageRejected` for one that can't be read."""


def serve(folder: str, pipe: Connection) -> None:
    """Load the image processor of the model in `folder`, then read images from `pipe` until the pipe is closed."""
    end_with_parent(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent ends this one
    from inference_worker.engine.vision.image_processing import ImageProcessing  # noqa: PLC0415 - loads torch

    with suppress(EOFError, OSError):
        try:
            processing = ImageProcessing.load(Path(folder))
            text, margin = processing.max_text()
        except (UnsupportedModel, MemoryError, ValueError, LookupError, TypeError, AttributeError) as error:
            pipe.send_bytes(msgspec.msgpack.encode(ReaderFailed(str(error) or type(error).__name__)))
            return
        pipe.send_bytes(msgspec.msgpack.encode(ReaderReady(processing.image_token, text, margin)))
        answer_prompts(processing, pipe)


def answer_prompts(processing: Processing, pipe: Connection) -> None:
    """Read the images of each prompt that `pipe` brings, one prompt at a time, and send the answers."""
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
            return _too_large()
        return parent_end.recv_bytes()
    except (EOFError, OSError):
        return _too_large()
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
    except SandboxUnavailable:
        return ImagesRefused(0, "it could not be read safely")
    try:
        texts, inputs = processing.process(files)
    except ImageRejected as error:
        return ImagesRefused(error.index, error.reason)
    if sum(len(each.data) for each in inputs) > MAX_INPUT_BYTES:
        return ImagesRefused(0, TOO_LARGE)
    return ImagesRead(texts, inputs)


def _too_large() -> bytes:
    return msgspec.msgpack.encode(ImagesRefused(0, TOO_LARGE))
