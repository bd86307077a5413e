"""The engine process: commands in by one pipe, an engine that steps while it has work, reports out by another.

Loads torch, so only the child calls `run`. Knows no queue and no text. If the parent goes, the pipe ends and so does
this process.
"""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeVar

import msgspec

from inference_worker.engine_protocol import (
    Abort,
    Command,
    EngineEvent,
    EngineLoad,
    EngineRequest,
    Ready,
    Report,
    RequestFailed,
    Shutdown,
    StartFailed,
    StepReport,
)
from inference_worker.errors import WorkerError
from inference_worker.model_source import resolve
from inference_worker.settings import EngineSettings
from infra.runtime import logging
from router.messages import Task

Target = Callable[[EngineSettings, Connection, Connection], None]

BACKLOG_EVENTS = 16_384
"""Events that may wait for a slow parent before the engine does."""


R_contra = TypeVar("R_contra", bound=EngineRequest, contravariant=True)


class SteppingEngine(Protocol[R_contra]):
    """What this loop needs of an engine for requests of kind `R_contra`."""

    def ready(self) -> Ready:
        """What was loaded."""

    def add(self, request: R_contra) -> None:
        """Take a request in."""

    def abort(self, request: str, choice: int | None = None) -> None:
        """Drop a request, or one choice of it."""

    def step(self) -> Sequence[EngineEvent]:
        """Compute one step."""

    def has_work(self) -> bool:
        """Whether there is something to step for."""

    def load(self) -> EngineLoad:
        """Counters and gauges."""

    def failures(self) -> list[RequestFailed]:
        """Requests that failed since the last call."""


def run(
    settings: EngineSettings,
    commands: Connection,
    reports: Connection,
    *,
    process: str = "engine",
    log_style: logging.LogStyle = "console",
    log_level: str = "info",
) -> None:
    """The child's main function: load the model, say `Ready` or why not, then serve."""
    logging.configure(process, style=log_style, level=log_level)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides when we end
    mouth = Mouth(reports)
    try:
        engine = _load(settings)
    except (WorkerError, MemoryError, OSError, RuntimeError, ValueError, LookupError) as error:
        mouth.say(StartFailed(reason=_reason(error)))
        return
    # What was made while loading stays for good: the collector need not walk over it during a step.
    gc.collect()
    gc.freeze()
    mouth.say(engine.ready())
    with suppress(EOFError, OSError):  # the parent has gone
        serve(engine, commands, mouth)


def serve(engine: SteppingEngine[Any], commands: Connection, mouth: Mouth) -> None:
    """Step while there is work, wait for commands when there is none, until told to shut down.

    Raises:
        EOFError, OSError: the parent has gone.
    """
    decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)
    with ReportOutbox(mouth) as outbox:
        while True:
            heard = False
            while commands.poll(0 if heard or engine.has_work() else None):
                command = decoder.decode(commands.recv_bytes())
                if isinstance(command, Shutdown):
                    return
                _obey(engine, command)
                heard = True  # and is answered by a report even if no work came of it
            events = engine.step() if engine.has_work() else []
            outbox.put(events, engine.failures(), engine.load())


def _obey(engine: SteppingEngine[Any], command: EngineRequest | Abort) -> None:
    if isinstance(command, Abort):
        engine.abort(command.request, command.choice)
    else:
        engine.add(command)


class Mouth:
    """The pipe to the parent, one message at a time."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._encoder = msgspec.msgpack.Encoder()

    def say(self, report: Report) -> None:
        """Send a report; blocks while the pipe is full."""
        self._pipe.send_bytes(self._encoder.encode(report))


@dataclass
class _Unsent:
    events: list[EngineEvent] = field(default_factory=list)
    failed: list[RequestFailed] = field(default_factory=list)
    load: EngineLoad | None = None


class ReportOutbox:
    """Sends one report a step from a thread of its own; what a slow parent has not yet taken becomes one report.

    So a step does not wait for the pipe, unless `BACKLOG_EVENTS` are waiting: then it does, and memory stays bounded.
    """

    def __init__(self, mouth: Mouth) -> None:
        self._mouth = mouth
        self._changed = threading.Condition()
        self._unsent = _Unsent()
        self._closed = False
        self._thread = threading.Thread(target=self._send, name="reports", daemon=True)

    def __enter__(self) -> ReportOutbox:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def put(self, events: Sequence[EngineEvent], failed: list[RequestFailed], load: EngineLoad) -> None:
        """Leave a step's outcome to be sent; waits while too much is waiting.

        Raises:
            BrokenPipeError: the parent has gone.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._unsent.events) < BACKLOG_EVENTS)
            if self._closed:
                raise BrokenPipeError("the parent has gone")
            self._unsent.events.extend(events)
            self._unsent.failed.extend(failed)
            self._unsent.load = load
            self._changed.notify_all()

    def _send(self) -> None:
        while (unsent := self._take()) is not None and unsent.load is not None:
            try:
                self._mouth.say(StepReport(events=unsent.events, failed=unsent.failed, load=unsent.load))
            except OSError:
                self.__exit__()
                return

    def _take(self) -> _Unsent | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._unsent.load is not None)
            if self._closed:
                return None
            taken, self._unsent = self._unsent, _Unsent()
            self._changed.notify_all()
            return taken


def _load(settings: EngineSettings) -> SteppingEngine[Any]:
    import torch  # noqa: PLC0415 - only this process may be heavy

    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    source = resolve(settings.model)
    if source.task is Task.EMBED:
        from inference_worker.embedding.engine import EmbeddingEngine  # noqa: PLC0415

        return EmbeddingEngine.load_model(source, settings)
    from inference_worker.engine import Engine  # noqa: PLC0415

    return Engine.from_settings(settings)


def _reason(error: BaseException) -> str:
    """One line for the operator."""
    text = " ".join(str(error).split())[:500]
    if isinstance(error, MemoryError) or "out of memory" in text.lower() or "can't allocate memory" in text:
        return f"out of memory while loading the model: {text or 'no more memory'}"
    return text if isinstance(error, WorkerError) else f"{type(error).__name__}: {text}"
