"""How a process starts and stops: one line when it can't start, a clean exit on SIGTERM."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import uvloop

EXIT_CANNOT_START = 78
"""`EX_CONFIG` of sysexits.h: trying again without a change will not help."""

SWITCH_SECONDS = 0.0005
"""How long a busy thread may keep the interpreter from another: one that tokenises from the event loop, and the other
way round. Python's own 5 ms would be most of a first token's time."""

YOUNG_OBJECTS = 10_000
"""Objects made before the garbage collector looks at them (Python: 700). A request makes hundreds that die with it."""


class StartupError(Exception):
    """The process can't start; the message is one line for the operator, in words, with what to do about it."""


def exit_cannot_start(error: StartupError) -> NoReturn:
    """Say why in one line on stderr and exit."""
    print(f"headrace: {error}", file=sys.stderr, flush=True)
    raise SystemExit(EXIT_CANNOT_START)


def stop_on_signals(stop: asyncio.Event, *, again: Callable[[], None] | None = None) -> None:
    """Set `stop` at the first SIGTERM or SIGINT; call `again` at each further one. Call inside the loop."""
    loop = asyncio.get_running_loop()

    def received() -> None:
        if stop.is_set() and again is not None:
            again()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a process's main coroutine on uvloop; a `StartupError` becomes one line and an exit status."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # modules and classes stay: no collection in the middle of a stream need look at them again
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main)
    except StartupError as error:
        exit_cannot_start(error)
