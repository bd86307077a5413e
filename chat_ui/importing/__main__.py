"""The process that reads a file: an order and the file come in, frames go out. See `reading_apart.py`."""

from __future__ import annotations

import gc
import os
import sys

import msgspec

from chat_ui.importing.frames import Order
from chat_ui.importing.reading import read
from chat_ui.importing.reading_apart import LENGTH_BYTES

NICER = 5
"""Than whoever answers people."""


def main() -> None:
    """Read one file."""
    os.nice(NICER)
    gc.disable()  # it would look at millions of objects again and again, and a file has no circles
    given = sys.stdin.buffer
    order = msgspec.msgpack.decode(given.read(int.from_bytes(given.read(LENGTH_BYTES), "big")), type=Order)
    for frame in read(given.read(), order):
        encoded = msgspec.msgpack.encode(frame)
        sys.stdout.buffer.write(len(encoded).to_bytes(LENGTH_BYTES, "big") + encoded)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
