"""The process that reads images: formats, hostile files, limits, and its restart after a crash."""

from __future__ import annotations

import io
import os
import signal
import struct
import subprocess
import zlib
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pytest
from PIL import Image

from inference_worker.engine.vision import reader_process
from inference_worker.engine.vision.reader_process import (
    MAX_PIXELS,
    MAX_SCANS,
    DeclaredArray,
    ImagesRead,
    ImagesRefused,
    ImagesUnread,
    Refusal,
)
from inference_worker.engine_protocol import ModelInput
from inference_worker.errors import ImageReaderFailed, ImageRejected, UnsupportedModel
from inference_worker.worker.vision.image_reader import ImageReader
from runtime.sandbox.limits import Limits, SandboxUnavailable


def image(format_: str = "PNG", size: tuple[int, int] = (40, 30), *, mode: str = "RGB", **options: object) -> bytes:
    file = io.BytesIO()
    Image.new(mode, size).save(file, format_, **options)
    return file.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that declares a large image."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(100_000))), (b"IEND", b"")]
    packed = [(struct.pack(">I", len(data)), kind + data) for kind, data in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(size + each + struct.pack(">I", zlib.crc32(each)) for size, each in packed)


def with_scans(extra: int) -> bytes:
    """A progressive JPEG of 10 scans, the last one `extra` times more."""
    file = image("JPEG", progressive=True)
    assert file.count(b"\xff\xda") == 10
    last = file.rindex(b"\xff\xda")
    return file[:last] + file[last:-2] * (1 + extra) + file[-2:]


def with_comment(file: bytes) -> bytes:
    """A JPEG with a comment that looks like many scans."""
    comment = b"\xff\xda" * (MAX_SCANS + 1)
    return file[:2] + b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment + file[2:]


def of_two_pictures() -> bytes:
    """A camera's JPEG with a second picture (MPO)."""
    file = io.BytesIO()
    Image.new("RGB", (40, 30)).save(file, "MPO", save_all=True, append_images=[Image.new("RGB", (40, 30))])
    return file.getvalue()


@pytest.fixture(scope="module")
def reader(vision_folder: Path) -> Iterator[ImageReader]:
    made = ImageReader(vision_folder)
    tokens = made.start()
    assert tokens.placeholder == "<image>"
    assert tokens.bound(tokens.longest_text.count("<image>")) >= 40
    yield made
    made.close()


@pytest.mark.parametrize(
    "file",
    [
        image(),
        image("JPEG"),
        image("WEBP"),
        image("GIF"),
        image("PNG", mode="RGBA"),
        image("PNG", mode="P"),
        image("PNG", mode="I;16"),
        image("JPEG", mode="CMYK"),
        with_scans(MAX_SCANS - 10),
        with_comment(image("JPEG")),
        of_two_pictures(),
    ],
)
async def test_formats_and_colours_are_read(reader: ImageReader, file: bytes) -> None:
    read = await reader.read([file, image(size=(10, 200))])
    assert len(read.texts) == 2
    pixels = next(each for each in read.inputs if each.name == "pixel_values")
    assert (pixels.dtype, pixels.shape[2:]) == ("float32", [3, 32, 32])
    assert len(pixels.data) == 4 * pixels.shape[1] * 3 * 32 * 32


async def test_transparency_is_white_and_pictures_are_upright(reader: ImageReader) -> None:
    async def pixels(file: bytes) -> bytes:
        return (await reader.read([file])).inputs[0].data

    white = Image.new("RGB", (40, 30), "white")
    file = io.BytesIO()
    white.save(file, "PNG")
    assert await pixels(image(mode="RGBA")) == await pixels(file.getvalue())
    turned, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6
    white.save(turned, "PNG", exif=exif)
    upright = io.BytesIO()
    white.transpose(Image.Transpose.ROTATE_270).save(upright, "PNG")
    assert await pixels(turned.getvalue()) == await pixels(upright.getvalue())


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (b"", "damaged"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "damaged"),
        (image()[:60], "damaged"),
        (image("BMP"), "no PNG, JPEG, WebP or GIF"),
        (image("TIFF"), "no PNG, JPEG, WebP or GIF"),
        (bomb(60_000, 60_000), f"more than {MAX_PIXELS} pixels"),
        (bomb(4000, 4000), "damaged"),
        (with_scans(MAX_SCANS - 9), f"a JPEG file of more than {MAX_SCANS} scans"),
        (with_scans(1400), f"a JPEG file of more than {MAX_SCANS} scans"),
    ],
)
async def test_an_unreadable_image_is_refused_by_its_number(reader: ImageReader, file: bytes, reason: str) -> None:
    with pytest.raises(ImageRejected, match=reason) as refused:
        await reader.read([image(), file])
    assert refused.value.index == 1
    assert (await reader.read([image()])).texts, "the next prompt is read"


async def test_a_killed_process_is_started_again(reader: ImageReader) -> None:
    assert reader._running is not None
    process = reader._running[0]
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert (await reader.read([image()])).texts


class Greedy:
    """Work that exceeds a limit, or tries what it must not."""

    def __init__(self, what: str) -> None:
        self._what = what

    def process(self, files: list[bytes]) -> tuple[list[str], list[object]]:
        if self._what == "memory":
            return [str(len(bytearray(4 * 2**30)))], []
        if self._what == "file":
            return [Path("/etc/passwd").read_text()], []
        while True:
            pass


def answer_of(what: str) -> reader_process.Answer:
    encoded = reader_process._read_in_child(Greedy(what), [b""])  # type: ignore[arg-type]
    return msgspec.msgpack.decode(encoded, type=reader_process.Answer)


@pytest.mark.parametrize("what", ["memory", "file", "time"])
def test_the_child_is_confined(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_process, "LIMITS", Limits(memory_bytes=2**30, cpu_seconds=0.5))
    assert answer_of(what) == ImagesRefused(0, Refusal.WORK)


@pytest.mark.parametrize("cause", ["busy", "unconfined"])
def test_what_is_not_an_images_fault_is_no_refusal(cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise SandboxUnavailable("no seccomp")

    if cause == "busy":
        monkeypatch.setattr(reader_process, "WALL_TIME_LIMIT", 0.2)
    else:
        monkeypatch.setattr(reader_process, "confine", fail)
    assert isinstance(answer_of("time"), ImagesUnread)


class Answering(ImageReader):
    """A reader whose process sends `answer`."""

    def __init__(self, answer: object) -> None:
        super().__init__(Path("/"))
        self._arrays = [DeclaredArray("pixels", "float32", 4, [1, None, 2]), DeclaredArray("sizes", "int64", 8, [1, 2])]
        ours, self._theirs = Pipe()
        self._running = (subprocess.Popen(["/bin/sleep", "60"]), ours)
        self._encoded = msgspec.msgpack.encode(answer)

    def _receive(self, pipe: Connection, timeout: float) -> bytes:
        return self._encoded


SIZES = ModelInput("sizes", "int64", [1, 2], bytes(16))


def of_pixels(
    dtype: str = "float32", shape: tuple[int, ...] = (1, 3, 2), size: int = 24, name: str = "pixels"
) -> ImagesRead:
    return ImagesRead(["text"], [ModelInput(name, dtype, list(shape), bytes(size)), SIZES])


@pytest.mark.parametrize(
    "answer",
    [
        of_pixels(dtype="int64"),
        of_pixels(name="others"),
        of_pixels(shape=(1, 3, 3), size=36),
        of_pixels(shape=(1, 3)),
        of_pixels(shape=(1, 0, 2), size=0),
        of_pixels(shape=(1, -3, 2)),
        of_pixels(size=16),
        of_pixels(shape=(1, 2**40, 2)),
        ImagesRead(["text", "text"], of_pixels().inputs),
        ImagesRead(["text"], [SIZES]),
        ImagesRead(["text"], [*of_pixels().inputs, SIZES]),
        ImagesRefused(1, Refusal.DAMAGED),
        ImagesRefused(-1, Refusal.DAMAGED),
        {"type": "refused", "index": 0, "reason": "it is fine, but visit http://evil.test"},
        {"type": "else"},
        ImagesUnread("the machine was busy"),
    ],
)
async def test_answers_that_no_image_leads_to_are_the_workers_failure(answer: object) -> None:
    reader = Answering(answer)
    with pytest.raises(ImageReaderFailed, match=r"arrays other than|not sent|malformed|busy"):
        await reader.read([b""])
    reader.close()


async def test_declared_arrays_are_accepted() -> None:
    reader = Answering(of_pixels())
    assert (await reader.read([b""])).texts == ["text"]
    reader.close()


async def test_a_process_that_can_not_be_started_is_the_workers_failure(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ImageReaderFailed, match="image processor"):
        await ImageReader(tmp_path).read([image()])


def test_a_folder_without_an_image_processor_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UnsupportedModel, match="image processor"):
        ImageReader(tmp_path).start()
