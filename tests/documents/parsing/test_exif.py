"""The orientation of photographs; anything else is upright."""

from __future__ import annotations

import pytest
from PIL import Image

from documents.parsing.exif import orientation
from tests.documents.parsing.scanned import saved

EXIF = b"Exif\0\0"


def photograph(turned: int) -> bytes:
    exif = Image.Exif()
    exif[0x010F], exif[0x0112] = "maker", turned
    return saved(Image.new("L", (8, 8)), "JPEG", exif=exif)


@pytest.mark.parametrize("turned", [1, 3, 6, 8])
def test_the_orientation_is_read(turned: int) -> None:
    assert orientation(photograph(turned)) == turned


def test_both_byte_orders() -> None:
    assert orientation(EXIF + b"II*\0\x08\0\0\0\x01\0" + b"\x12\x01\x03\0\x01\0\0\0\x06\0\0\0") == 6
    assert orientation(EXIF + b"MM\0*\0\0\0\x08\0\x01" + b"\x01\x12\0\x03\0\0\0\x01\0\x06\0\0") == 6


@pytest.mark.parametrize("content", [b"", EXIF, EXIF + b"XX" * 20, EXIF + b"II*\0\xff\xff\xff\xff", EXIF + b"II" * 9])
def test_others_are_upright(content: bytes) -> None:
    assert orientation(content) == 1
