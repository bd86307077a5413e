"""Headers of images: as a library writes them, cut off, and hostile."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from stored_objects.images.header import ImageHeader, read_image_header

SIZE = (321, 45)


def image(format_: str, *, mode: str = "RGB", **options: object) -> bytes:
    file = io.BytesIO()
    Image.new(mode, SIZE).save(file, format_, **options)
    return file.getvalue()


FILES = {
    "image/png": [image("PNG"), image("PNG", mode="P"), image("PNG", mode="RGBA")],
    "image/jpeg": [image("JPEG"), image("JPEG", progressive=True), image("JPEG", comment=b"\xff\xc0" * 100)],
    "image/gif": [image("GIF")],
    "image/webp": [image("WEBP"), image("WEBP", lossless=True), image("WEBP", exif=b"Exif\0\0" + bytes(8))],
}


@pytest.mark.parametrize(("media_type", "file"), [(kind, file) for kind, files in FILES.items() for file in files])
def test_format_and_size_are_read(media_type: str, file: bytes) -> None:
    assert read_image_header(file) == ImageHeader(media_type, *SIZE)
    for end in range(0, 40):
        read_image_header(file[:end])


@pytest.mark.parametrize(
    "file",
    [b"", b"<svg/>", b"BM" + bytes(50), b"\xff\xd8\xff" + b"\xff" * 50, b"RIFF0000WEBPVP8Z" + bytes(30), b"GIF89a"],
)
def test_other_files_have_none(file: bytes) -> None:
    assert read_image_header(file) is None


def test_padding_before_the_size_of_a_jpeg_is_bounded() -> None:
    file = image("JPEG")
    assert read_image_header(file[:2] + b"\xff" * 100 + file[2:]) == ImageHeader("image/jpeg", *SIZE)
    assert read_image_header(file[:2] + b"\xff" * 3_000_000 + file[2:]) is None
    assert read_image_header(file[:2] + b"\xff\xd0" * 3_000 + file[2:]) is None, "restarts come after the size"


def test_a_bomb_is_seen_by_its_header() -> None:
    bomb = bytearray(image("PNG"))
    bomb[16:24] = struct.pack(">II", 100_000, 100_000)
    header = read_image_header(bytes(bomb))
    assert header is not None
    assert header.pixels == 10**10


@given(st.sampled_from([file[:20] for files in FILES.values() for file in files]), st.binary(max_size=200))
def test_no_bytes_raise(start: bytes, rest: bytes) -> None:
    header = read_image_header(start + rest)
    assert header is None or header.pixels > 0
