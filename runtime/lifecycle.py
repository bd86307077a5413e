"""Runs a process's main coroutine on uvloop, sets its stop event on signals, prints start-up errors in one line."""

from __future__ import annotations

import asyncio
import gc
import resource
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import uvloop

EXIT_CANNOT_START = 78
"""`EX_CONFIG` of sysexits.h: a restart without a change of configuration will not help."""

SWITCH_INTERVAL = 0.0005
"""Python's thread switch interval: how long a busy thread, e.g. one that tokenises, can block the event loop's thread.
Python's default of 5 ms would be most of the time to first token."""

MAX_FILES = 65_536
"""Open files that a process may have where the system permits it: each client connection is one, and the soft limit of
a shell is often 1,024."""

YOUNG_OBJECTS = 10_000
"""Allocations before a garbage collection of the youngest generation (Python's default: 700)."""


class StartupError(Exception):
    """Raised when a process can't start; the message is one line for the operator, with what to do about it."""


def exit_cannot_start(error: StartupError) -> NoReturn:
    """Print a process's start-up error on stderr in one line, and exit the process with a non-zero status."""
    print(f"headrace: {error}", file=sys.stderr, flush=True)
    raise SystemExit(EXIT_CANNOT_START)


def stop_on_signals(stop: asyncio.Event, *, again: Callable[[], None] | None = None) -> None:
    """Install handlers of SIGTERM and SIGINT: the first signal sets `stop`, each further one calls `again`.

    Call it in the loop.
    """
    loop = asyncio.get_running_loop()

    def received() -> None:
        if stop.is_set() and again is not None:
            again()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received)


def raise_file_limit() -> None:
    """Raise this process's limit of open files to `MAX_FILES`, or as far as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def freeze_objects() -> None:
    """Exempt the objects that exist now, such as modules and classes, from later garbage collections: they stay.

    A full collection would scan them, in which time the process does nothing else.
    """
    gc.collect()
    gc.freeze()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run the coroutine `main` of a process on uvloop to its end.

    A `StartupError` is printed in one line, then the process exits with a non-zero status.
    """
    raise_file_limit()
    sys.setswitchinterval(SWITCH_INTERVAL)
    freeze_objects()
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main)
    except StartupError as error:
        exit_cannot_start(error)
