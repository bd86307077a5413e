"""Reads the orientation that a camera notes in a JPEG file (EXIF)."""

from __future__ import annotations

from typing import Literal

_WITHIN = 128 * 1024
"""Bytes at the beginning of a file in which EXIF is looked for."""
_START = b"Exif\0\0"
_BYTE_ORDERS: dict[bytes, Literal["little", "big"]] = {b"II": "little", b"MM": "big"}
_ORIENTATION = 0x0112
_ENTRY_BYTES = 12
_UPRIGHT = 1


def orientation(content: bytes) -> int:
    """Return the orientation that the JPEG file `content` notes: 1 (upright) to 8; 1 if it notes none."""
    head = content[:_WITHIN]
    start = head.find(_START)
    exif = head[start + len(_START) :] if start >= 0 else b""
    order = _BYTE_ORDERS.get(exif[:2])
    if order is None:
        return _UPRIGHT

    def number(offset: int, size: int) -> int:
        return int.from_bytes(exif[offset : offset + size], order)

    directory = number(4, 4)
    for entry in range(min(number(directory, 2), 100)):
        offset = directory + 2 + entry * _ENTRY_BYTES
        if number(offset, 2) == _ORIENTATION:
            return number(offset + 8, 2)
    return _UPRIGHT
