"""Reads format and size of an image from the beginning of its file, without decoding it: PNG, JPEG, WebP and GIF.

So an image that would become too large in memory is refused before any library decodes it. Sources: W3C PNG
(Third Edition, 11.2.1), ITU T.81 annex B, Google's WebP container specification, GIF89a section 18.
"""

from __future__ import annotations

from dataclasses import dataclass

_START_OF_FRAME = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""Second bytes of the JPEG markers whose segment has the size."""
_MAX_JPEG_MARKERS = 1_024
"""Markers and bytes of padding that are read before the size: a file of nothing else must not take time."""
_PNG_HEADER = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


@dataclass(frozen=True)
class ImageHeader:
    """Media type of an image, and its size in pixels as its file declares it."""

    media_type: str
    width: int
    height: int

    @property
    def pixels(self) -> int:
        """Number of pixels of the image: width times height."""
        return self.width * self.height


def read_image_header(file: bytes) -> ImageHeader | None:
    """Parse the beginning of an image file; return its media type and declared size, or `None` for any other file."""
    size, media_type = None, ""
    if file.startswith(_PNG_HEADER):
        media_type, size = "image/png", _big_endian(file, 16, 4)
    elif file.startswith(b"\xff\xd8\xff"):
        media_type, size = "image/jpeg", _jpeg_size(file)
    elif file.startswith((b"GIF87a", b"GIF89a")) and len(file) >= 10:
        media_type, size = "image/gif", (_little(file, 6, 2), _little(file, 8, 2))
    elif file.startswith(b"RIFF") and file[8:12] == b"WEBP":
        media_type, size = "image/webp", _webp_size(file)
    if size is None or not all(size):
        return None
    return ImageHeader(media_type, *size)


def _big_endian(file: bytes, at: int, width: int) -> tuple[int, int] | None:
    if len(file) < at + 2 * width:
        return None
    return int.from_bytes(file[at : at + width], "big"), int.from_bytes(file[at + width : at + 2 * width], "big")


def _little(file: bytes, at: int, width: int) -> int:
    return int.from_bytes(file[at : at + width], "little")


def _jpeg_size(file: bytes) -> tuple[int, int] | None:
    at = 2
    for _ in range(_MAX_JPEG_MARKERS):
        if at + 4 > len(file) or file[at] != 0xFF:
            return None
        marker = file[at + 1]
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _START_OF_FRAME:
            size = _big_endian(file, at + 5, 2)
            return None if size is None else (size[1], size[0])
        else:
            at += 2 + max(2, int.from_bytes(file[at + 2 : at + 4], "big"))
    return None


def _webp_size(file: bytes) -> tuple[int, int] | None:
    if len(file) < 30:
        return None
    match file[12:16]:
        case b"VP8X":
            return 1 + _little(file, 24, 3), 1 + _little(file, 27, 3)
        case b"VP8L":
            bits = _little(file, 21, 4)
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            return _little(file, 26, 2) & 0x3FFF, _little(file, 28, 2) & 0x3FFF
        case _:
            return None
