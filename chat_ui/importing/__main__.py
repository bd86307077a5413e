"""Entry point of the parser process: reads an order and a file from stdin, writes frames to stdout."""

from __future__ import annotations

import gc
import os
import sys

import msgspec

from chat_ui.importing.frames import ImportRequest
from chat_ui.importing.parser import parse
from chat_ui.importing.parser_process import LENGTH_BYTES

NICER = 5
"""Increment of the process' nice value, so that it yields to request handling."""


def main() -> None:
    """Read a request and an export file from stdin, parse the file, and write its frames to stdout."""
    os.nice(NICER)
    gc.disable()  # collections would scan millions of objects, and parsed JSON has no cycles
    stdin = sys.stdin.buffer
    request = msgspec.msgpack.decode(stdin.read(int.from_bytes(stdin.read(LENGTH_BYTES), "big")), type=ImportRequest)
    for frame in parse(stdin.read(), request):
        encoded = msgspec.msgpack.encode(frame)
        sys.stdout.buffer.write(len(encoded).to_bytes(LENGTH_BYTES, "big") + encoded)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
