"""Entry point of a sandboxed child process (`process.run` starts it): imports the work, confines itself, runs the work.

The order comes on standard input, messages go to standard output, each after its length. Untrusted bytes are read only
after the confinement.
"""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Callable, Iterable
from typing import BinaryIO

from runtime.sandbox.confinement import confine
from runtime.sandbox.limits import Limits, SandboxUnavailable

LENGTH_BYTES = 4
OUT_OF_MEMORY, UNCONFINED = 75, 76
"""Exit statuses."""
NO_SOURCE = -1
"""Descriptor of the source for work without one."""
STDIN, STDOUT = 0, 1

Work = Callable[[bytes, BinaryIO], Iterable[bytes]]
"""A function of an importable module: gets the order and the source, which can only be read, and yields messages."""


def main(work: str, memory_bytes: str, cpu_seconds: str, source: str) -> None:
    """Entry point of a sandboxed child: run the function `work` (`MODULE:NAME`) confined in this process, then exit.

    Args:
        memory_bytes: limit on memory, as text of the command line.
        cpu_seconds: limit on CPU time, as text.
        source: file descriptor that the work may read, as text; `NO_SOURCE`: none.
    """
    status = 1
    try:
        module, _, name = work.partition(":")
        function: Work = getattr(importlib.import_module(module), name)
        descriptor = int(source)
        keep = [STDIN, STDOUT] if descriptor == NO_SOURCE else [STDIN, STDOUT, descriptor]
        gc.disable()  # collections would scan millions of objects of a parsed file
        confine(Limits(int(memory_bytes), float(cpu_seconds)), keep)
        run_work(function, STDIN if descriptor == NO_SOURCE else descriptor)
        status = 0
    except MemoryError:
        status = OUT_OF_MEMORY
    except SandboxUnavailable:
        status = UNCONFINED
    finally:
        os._exit(status)  # the work's objects are not torn down one by one


def run_work(function: Work, source: int) -> None:
    """Run `function` in this confined process on the bytes of standard input, and write its messages.

    Each message goes to standard output after its length in 4 bytes, big-endian.

    `source` is the descriptor of the file that the function reads.
    """
    with os.fdopen(STDIN, "rb") as orders, os.fdopen(STDOUT, "wb") as output:
        order = orders.read()
        with os.fdopen(source, "rb", closefd=False) as file:
            for message in function(order, file):
                output.write(len(message).to_bytes(LENGTH_BYTES, "big"))
                output.write(message)
                output.flush()
