"""Entry point of the parser process: reads an order and a file from stdin, writes frames to stdout."""

from __future__ import annotations

import gc
import os
import sys

import msgspec

from chat_ui.importing.frames import Order
from chat_ui.importing.reading import read
from chat_ui.importing.reading_apart import LENGTH_BYTES

NICER = 5
"""Increment of the process' nice value, so that it yields to request handling."""


def main() -> None:
    """Parse one file."""
    os.nice(NICER)
    gc.disable()  # collections would scan millions of objects, and parsed JSON has no cycles
    given = sys.stdin.buffer
    order = msgspec.msgpack.decode(given.read(int.from_bytes(given.read(LENGTH_BYTES), "big")), type=Order)
    for frame in read(given.read(), order):
        encoded = msgspec.msgpack.encode(frame)
        sys.stdout.buffer.write(len(encoded).to_bytes(LENGTH_BYTES, "big") + encoded)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
