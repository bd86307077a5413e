"""Reads the worker's commands from an engine's pipe and writes reports, which are merged while the pipe is full."""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection

import msgspec

from inference_worker.engine_protocol import (
    Abort,
    Command,
    EngineEvent,
    EngineLoad,
    EngineRequest,
    Report,
    RequestFailed,
    Shutdown,
    StepReport,
)

MAX_BUFFERED_EVENTS = 16_384
"""Events that are buffered for a slow parent before the engine waits for it."""


class CommandReader:
    """Reads the worker process's commands (requests, aborts, shutdown) from a pipe, in order."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)
        self._deferred: deque[Command] = deque()

    def fileno(self) -> int:
        """Return the file descriptor of the commands' pipe, which becomes readable when a command arrives."""
        return self._pipe.fileno()

    def has_deferred(self) -> bool:
        """Return whether commands were kept for `next` by `during_step`."""
        return bool(self._deferred)

    def next(self) -> Command | None:
        """Return the worker's next command, or `None` if there is none yet.

        Raises:
            EOFError, OSError: the parent process, the worker, has exited.
        """
        if self._deferred:
            return self._deferred.popleft()
        return self._decoder.decode(self._pipe.recv_bytes()) if self._pipe.poll(0) else None

    def during_step(self, computes: Callable[[str], bool]) -> Iterator[EngineRequest | Abort]:
        """Yield the commands that have arrived and can be applied while the engine computes a step.

        Those for a request that the step `computes`, and further ones for the same request, are kept for `next`, and a
        shutdown with all that follows it.

        Raises:
            EOFError, OSError: the parent process, the worker, has exited.
        """
        held = {_request(command) for command in self._deferred}
        while self._pipe.poll(0):
            command = self._decoder.decode(self._pipe.recv_bytes())
            request = _request(command)
            if isinstance(command, Shutdown) or request is None or held & {None, request} or computes(request):
                self._deferred.append(command)
                held.add(request)
            else:
                yield command


def _request(command: Command) -> str | None:
    """Return the id of the request that a command is about; `None`: a shutdown."""
    if isinstance(command, Shutdown):
        return None
    return command.request if isinstance(command, Abort) else command.id


class EventWriter:
    """Writes reports (ready, failed start, steps' outcomes) to the worker process's pipe, one message at a time."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._encoder = msgspec.msgpack.Encoder()
        self._poller = select.poll()
        self._poller.register(pipe, select.POLLOUT)

    @property
    def writable(self) -> bool:
        """Whether the pipe to the worker can take a short report now, so that `write` would not block."""
        return bool(self._poller.poll(0))

    def write(self, report: Report) -> None:
        """Write one report (ready, failed start, a step's outcome) to the worker's pipe; blocks while the pipe is full.

        Raises:
            OSError: the parent process, the worker, has exited.
        """
        self._pipe.send_bytes(self._encoder.encode(report))


class ReportBuffer:
    """Sends one report per step, and merges the outcomes of steps while the pipe is full.

    So a step does not wait for a slow parent unless `MAX_BUFFERED_EVENTS` are buffered, which bounds memory. There is
    no thread for it: a thread that encodes a report would take the interpreter from the next step.
    """

    def __init__(self, writer: EventWriter) -> None:
        self._writer = writer
        self._events: list[EngineEvent] = []
        self._failed: list[RequestFailed] = []
        self._load: EngineLoad | None = None

    def put(self, events: Sequence[EngineEvent], failed: Sequence[RequestFailed], load: EngineLoad) -> None:
        """Report a step's events, failed requests and load to the worker, or in the next report if the pipe is full.

        Raises:
            OSError: the parent process, the worker, has exited.
        """
        self._events.extend(events)
        self._failed.extend(failed)
        self._load = load
        if self._writer.writable or len(self._events) >= MAX_BUFFERED_EVENTS:
            self.flush()

    def flush(self) -> None:
        """Send the buffered outcomes of steps, if any, to the worker as one report; blocks while the pipe is full.

        Raises:
            OSError: the parent process, the worker, has exited.
        """
        if self._load is None:
            return
        self._writer.write(StepReport(events=self._events, failed=self._failed, load=self._load))
        self._events, self._failed, self._load = [], [], None
