"""The process that reads images: formats, hostile files, limits, and its restart after a crash."""

from __future__ import annotations

import io
import os
import signal
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from inference_worker.engine.vision import reader_process
from inference_worker.engine.vision.image_processing import MAX_PIXELS
from inference_worker.errors import ImageRejected, UnsupportedModel
from inference_worker.worker.vision.image_reader import ImageReader


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
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
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


@pytest.mark.parametrize("what", ["memory", "file", "time"])
def test_the_child_is_confined(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_process, "WALL_TIME_LIMIT", 2.0)
    answer = reader_process._read_in_child(Greedy(what), [b""])  # type: ignore[arg-type]
    assert reader_process.TOO_LARGE.encode() in answer


def test_a_folder_without_an_image_processor_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UnsupportedModel, match="image processor"):
        ImageReader(tmp_path).start()
