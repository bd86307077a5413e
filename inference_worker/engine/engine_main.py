"""Main loop of the engine process: reads the worker's commands from a pipe, steps the engine, writes reports back.

Only the child process calls `run`, because it loads torch. When the parent exits, the kernel ends this process, even
while it loads the model.
"""

from __future__ import annotations

import gc
import select
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeVar, runtime_checkable

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
from inference_worker.errors import ModelError, WorkerError
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import EngineSettings
from router.messages import Task
from runtime import logging
from runtime.parent_death import end_with_parent

Target = Callable[[EngineSettings, Connection, Connection], None]

MAX_BUFFERED_EVENTS = 16_384
"""Events that are buffered for a slow parent before the engine waits for it."""


R_contra = TypeVar("R_contra", bound=EngineRequest, contravariant=True)


class SteppingEngine(Protocol[R_contra]):
    """Interface of an engine that `serve` steps for requests `R_contra`: generations, embeddings, scores or images."""

    def ready(self) -> Ready:
        """Return the message in which the engine process reports its model and limits to the worker."""

    def add(self, request: R_contra) -> None:
        """Queue a request; implementations compute it in the next steps, or report it by `failures`."""

    def abort(self, request: str, choice: int | None = None) -> None:
        """Drop the request with the id `request`, or only its choice `choice`; unknown ids are ignored."""

    def step(self) -> Sequence[EngineEvent]:
        """Compute one batch of queued requests; return its results as events: new tokens, vectors, scores or images."""

    def has_work(self) -> bool:
        """Return whether any request is unfinished, so that the engine process should call `step`."""

    def load(self) -> EngineLoad:
        """Return the engine's load (counters and gauges), which each report to the worker contains."""

    def failures(self) -> list[RequestFailed]:
        """Return and clear the list of requests that failed since the last call, each with its id and the reason."""


@runtime_checkable
class InterruptibleEngine(SteppingEngine[Any], Protocol):
    """An engine that can accept requests while it computes a step."""

    def has(self, request: str) -> bool:
        """Return whether the request with this id was added to the engine and has neither ended nor been aborted."""

    def enable_prefill_interrupts(
        self, commands: int, receive: Callable[[], None], emit: Callable[[list[Any]], None]
    ) -> None:
        """Let a short prompt that arrives during a step be prefilled between two layers of that step.

        Called once by the engine process before its first step; `Engine.enable_prefill_interrupts` describes the
        arguments.
        """


def run(
    settings: EngineSettings,
    commands: Connection,
    reports: Connection,
    *,
    process: str = "engine",
    log_style: logging.LogStyle = "console",
    log_level: str = "info",
) -> None:
    """Main function of the engine's child process: load the model, report `Ready` or `StartFailed`, then serve.

    It returns on shutdown.

    Args:
        settings: the model and the engine's limits.
        commands: pipe from which the worker's commands are read.
        reports: pipe to which reports are written.
        process: name of the process in its log lines.
    """
    end_with_parent(getattr(parent_process(), "pid", None))  # the closed pipe is noticed only after the load
    logging.configure(process, style=log_style, level=log_level)
    # Ctrl-C reaches the whole group; the parent decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    writer = EventWriter(reports)
    try:
        engine = _load(settings)
    except (WorkerError, MemoryError, OSError, RuntimeError, ValueError, LookupError) as error:
        writer.write(StartFailed(reason=_start_failure(error)))
        return
    # Objects made while loading live as long as the process: keep the collector from walking over them during a step.
    gc.collect()
    gc.freeze()
    writer.write(engine.ready())
    with suppress(EOFError, OSError):  # the parent has exited
        serve(engine, commands, writer)


def serve(engine: SteppingEngine[Any], commands: Connection, writer: EventWriter) -> None:
    """Serve the worker's commands: step `engine` while it has work, wait for a command while it has none.

    Returns at a `Shutdown` command. The outcomes of steps go to `writer`.

    Raises:
        EOFError, OSError: the parent process, the worker, has exited.
    """
    reader, buffer = CommandReader(commands), ReportBuffer(writer)
    if isinstance(engine, InterruptibleEngine):
        _enable_prefill_interrupts(engine, reader, buffer)
    while True:
        if not engine.has_work():
            buffer.flush()
        received = False
        while (command := reader.next(wait=not received and not engine.has_work())) is not None:
            if isinstance(command, Shutdown):
                return
            _apply(engine, command)
            received = True  # a report follows even if the command made no work
        events = engine.step() if engine.has_work() else []
        buffer.put(events, engine.failures(), engine.load())


def _apply(engine: SteppingEngine[Any], command: EngineRequest | Abort) -> None:
    if isinstance(command, Abort):
        engine.abort(command.request, command.choice)
    else:
        engine.add(command)


def _enable_prefill_interrupts(engine: InterruptibleEngine, reader: CommandReader, buffer: ReportBuffer) -> None:
    """Have requests accepted during steps. The main loop notices between steps if the parent exits meanwhile."""

    def receive() -> None:
        with suppress(EOFError, OSError):
            for request in reader.new_requests(engine.has):
                engine.add(request)

    def emit(events: list[Any]) -> None:
        with suppress(OSError):
            buffer.put(events, engine.failures(), engine.load())

    engine.enable_prefill_interrupts(reader.fileno(), receive, emit)


class CommandReader:
    """Reads the worker process's commands (requests, aborts, shutdown) from a pipe, in order."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)
        self._deferred: deque[Command] = deque()

    def fileno(self) -> int:
        """Return the file descriptor of the commands' pipe, which becomes readable when a command arrives."""
        return self._pipe.fileno()

    def next(self, *, wait: bool) -> Command | None:
        """Return the worker's next command.

        With `wait` block until one arrives, else return `None` if there is none yet.

        Raises:
            EOFError, OSError: the parent process, the worker, has exited.
        """
        if self._deferred:
            return self._deferred.popleft()
        return self._decoder.decode(self._pipe.recv_bytes()) if self._pipe.poll(None if wait else 0) else None

    def new_requests(self, known: Callable[[str], bool]) -> Iterator[EngineRequest]:
        """Yield the requests that have arrived and whose ids are not `known`, up to the first command of another kind.

        Safe while the engine computes a step. That other command, and all after it, are kept for `next`.

        Raises:
            EOFError, OSError: the parent process, the worker, has exited.
        """
        while self._pipe.poll(0):
            command = self._decoder.decode(self._pipe.recv_bytes())
            if self._deferred or isinstance(command, Abort | Shutdown) or known(command.id):
                self._deferred.append(command)
            else:
                yield command


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


def _load(settings: EngineSettings) -> SteppingEngine[Any]:
    import torch  # noqa: PLC0415 - importing this module must stay cheap for the worker process

    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    source = resolve(settings.model, step_tag=settings.step_tag)
    if source.task is Task.EMBED:
        from inference_worker.engine.embedding.engine import EmbeddingEngine  # noqa: PLC0415

        return EmbeddingEngine.load_model(source, settings)
    if source.task is Task.SCORE:
        from inference_worker.engine.scoring.engine import load_scoring_engine  # noqa: PLC0415

        return load_scoring_engine(source, settings)
    if source.task is Task.IMAGE:
        if find_spec("diffusers") is None:
            raise ModelError("image models need the packages of the extra `images` (docs/images.md)")
        from inference_worker.engine.images.engine import ImageEngine  # noqa: PLC0415

        return ImageEngine.load_model(source, settings)
    if source.reads_images:
        if find_spec("PIL") is None:
            raise ModelError("models that read images need the packages of the extra `images` (docs/images.md)")
        from inference_worker.engine.vision.engine import VisionEngine  # noqa: PLC0415

        return VisionEngine.load_model(source, settings)
    from inference_worker.engine.engine import Engine  # noqa: PLC0415

    return Engine.from_settings(settings)


def _start_failure(error: BaseException) -> str:
    """Describe a start-up error in one line for the operator."""
    text = " ".join(str(error).split())[:500]
    if isinstance(error, MemoryError) or "out of memory" in text.lower() or "can't allocate memory" in text:
        return f"out of memory while loading the model: {text or 'no more memory'}"
    return text if isinstance(error, WorkerError) else f"{type(error).__name__}: {text}"
