"""Main loop of the engine process: reads the worker's commands from a pipe, steps the engine, writes reports back.

Only the child process calls `run`, because it loads torch. When the parent exits, the kernel ends this process, even
while it loads the model.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol, TypeVar, runtime_checkable

from inference_worker.engine.engine_pipes import CommandReader, EventWriter, ReportBuffer
from inference_worker.engine.scheduling.memory_pool import MemoryPool
from inference_worker.engine_protocol import (
    Abort,
    EngineEvent,
    EngineLoad,
    EngineRequest,
    Ready,
    RequestFailed,
    Shutdown,
    StartFailed,
)
from inference_worker.errors import ModelError, WorkerError
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import EngineSettings
from router.messages import Task
from runtime import logging
from runtime.parent_death import end_with_parent

Target = Callable[[EngineSettings, Connection, Connection], None]
Pipes = tuple[Connection, Connection]
"""The pipe from which an engine's commands are read, and the one to which its reports are written."""

SPIN_COUNT = 20_000
"""Times that a waiting thread of PyTorch's OpenMP looks for work before it sleeps. By OpenMP's default it takes a core
for milliseconds from a busy machine's other processes, such as the one whose thread it waits for."""

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
class PausingEngine(SteppingEngine[Any], Protocol):
    """An engine that leaves the cores to other processes between two steps."""

    def pause(self) -> float:
        """Return the seconds to wait for a command before the next step; 0: it may be computed at once."""


@runtime_checkable
class InterruptibleEngine(SteppingEngine[Any], Protocol):
    """An engine that can accept requests while it computes a step."""

    def computes(self, request: str) -> bool:
        """Return whether the current step computes the request with this id, which then can't be aborted."""

    def enable_step_interrupts(
        self, commands: int, receive: Callable[[], None], emit: Callable[[list[Any]], None]
    ) -> None:
        """Let requests that arrive during a step be computed between two layers of that step.

        Called once by the engine process before its first step; `Engine.enable_step_interrupts` describes the
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
    run_engines([settings], [(commands, reports)], process=process, log_style=log_style, log_level=log_level)


def run_engines(
    settings: Sequence[EngineSettings],
    pipes: Sequence[Pipes],
    computing: Computing | None = None,
    *,
    process: str = "engine",
    log_style: logging.LogStyle = "console",
    log_level: str = "info",
) -> None:
    """Main function of a child process with several engines, whose models share the memory of the first's KV cache.

    Each engine has pipes of its own; all report `Ready`, or all `StartFailed`. It returns on shutdown.

    Args:
        settings: of each engine. The KV cache's memory of the first is divided among all by need.
        pipes: commands and reports of each engine.
        computing: is set to the index of the engine whose turn it is.
        process: name of the process in its log lines.
    """
    end_with_parent(getattr(parent_process(), "pid", None))  # the closed pipe is noticed only after the load
    logging.configure(process, style=log_style, level=log_level)
    # Ctrl-C reaches the whole group; the parent decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    writers = [EventWriter(reports) for _, reports in pipes]
    if "OMP_WAIT_POLICY" not in os.environ:  # before PyTorch is imported, which loads OpenMP
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPIN_COUNT))
    try:
        pool = _pool(settings) if len(settings) > 1 else None
        engines, threads, all_threads = [], [], _torch_threads()
        for each in settings:
            all_threads()
            engines.append(_load(each, pool))
            threads.append(_torch_threads())
    except (WorkerError, MemoryError, OSError, RuntimeError, ValueError, LookupError) as error:
        for writer in writers:
            writer.write(StartFailed(reason=_start_failure(error)))
        return
    # Objects made while loading live as long as the process: keep the collector from walking over them during a step.
    gc.collect()
    gc.freeze()
    for engine, writer in zip(engines, writers, strict=True):
        writer.write(engine.ready())
    loops = [
        EngineLoop(engine, commands, writer, before_step=set_threads if len(settings) > 1 else None)
        for engine, (commands, _), writer, set_threads in zip(engines, pipes, writers, threads, strict=True)
    ]
    with suppress(EOFError, OSError):  # the parent has exited
        serve_engines(loops, computing)


def serve(engine: SteppingEngine[Any], commands: Connection, writer: EventWriter) -> None:
    """Serve the worker's commands: step `engine` while it has work, wait for a command while it has none.

    Returns at a `Shutdown` command. The outcomes of steps go to `writer`.

    Raises:
        EOFError, OSError: the parent process, the worker, has exited.
    """
    serve_engines([EngineLoop(engine, commands, writer)])


NOT_COMPUTING = -1
"""Value of `Computing` while no engine has its turn."""


class Computing(Protocol):
    """A number in memory shared with the parent process: the index of the engine whose turn it is."""

    value: int


def serve_engines(loops: Sequence[EngineLoop], computing: Computing | None = None) -> None:
    """Serve the commands to engines: compute a step of each that has work in turn, wait for a command if none has.

    Returns at a `Shutdown` command to any. `computing` is set to the index of the engine whose turn it is.

    Raises:
        EOFError, OSError: the parent process, the worker, has exited.
    """
    while True:
        for loop in loops:
            loop.flush_if_idle()
        pauses = [loop.pause() for loop in loops if loop.has_work()]
        if not pauses or min(pauses):
            wait([loop.commands for loop in loops], min(pauses, default=None))
        for index, loop in enumerate(loops):
            if computing is not None:
                computing.value = index
            received = loop.receive()
            if received is None:
                return
            if received or loop.has_work():
                loop.step()
            if computing is not None:
                computing.value = NOT_COMPUTING


class EngineLoop:
    """One engine of the process with its pipes: applies the commands that arrive, computes and reports steps."""

    def __init__(
        self,
        engine: SteppingEngine[Any],
        commands: Connection,
        writer: EventWriter,
        *,
        before_step: Callable[[], None] | None = None,
    ) -> None:
        """`before_step` is called before each step of an engine that is not alone in its process."""
        self.commands = commands
        self._before_step = before_step
        self._engine = engine
        self._reader, self._buffer = CommandReader(commands), ReportBuffer(writer)
        self._pausing = engine if isinstance(engine, PausingEngine) else None
        if isinstance(engine, InterruptibleEngine):
            _enable_step_interrupts(engine, self._reader, self._buffer)

    def has_work(self) -> bool:
        """Return whether the engine has unfinished requests, or commands were kept for it."""
        return self._reader.has_deferred() or self._engine.has_work()

    def pause(self) -> float:
        """Return the seconds to wait for a command before the next step of the engine, which has work."""
        return 0.0 if self._pausing is None or self._reader.has_deferred() else self._pausing.pause()

    def flush_if_idle(self) -> None:
        """Report the buffered outcomes of steps if there is no work, because no later step would report them.

        Raises:
            OSError: the parent process, the worker, has exited.
        """
        if not self.has_work():
            self._buffer.flush()

    def receive(self) -> bool | None:
        """Apply all commands that have arrived; return whether there were any, or `None` at a `Shutdown`.

        Raises:
            EOFError, OSError: the parent process, the worker, has exited.
        """
        received = False
        while (command := self._reader.next()) is not None:
            if isinstance(command, Shutdown):
                return None
            _apply(self._engine, command)
            received = True  # a report follows even if the command made no work
        return received

    def step(self) -> None:
        """Compute a step if there is work, and report its outcome.

        Raises:
            OSError: the parent process, the worker, has exited.
        """
        if self._before_step is not None:
            self._before_step()
        events = self._engine.step() if self._engine.has_work() else []
        self._buffer.put(events, self._engine.failures(), self._engine.load())


def _apply(engine: SteppingEngine[Any], command: EngineRequest | Abort) -> None:
    if isinstance(command, Abort):
        engine.abort(command.request, command.choice)
    else:
        engine.add(command)


def _enable_step_interrupts(engine: InterruptibleEngine, reader: CommandReader, buffer: ReportBuffer) -> None:
    """Have commands applied during steps. The main loop notices between steps if the parent exits meanwhile."""

    def receive() -> None:
        with suppress(EOFError, OSError):
            for command in reader.during_step(engine.computes):
                _apply(engine, command)

    def emit(events: list[Any]) -> None:
        with suppress(OSError):
            buffer.put(events, engine.failures(), engine.load())

    engine.enable_step_interrupts(reader.fileno(), receive, emit)


def _pool(settings: Sequence[EngineSettings]) -> MemoryPool:
    """Return the memory that the engines share, of the size that is set for the first."""
    import torch  # noqa: PLC0415 - importing this module must stay cheap for the worker process

    from inference_worker.engine.execution.cache_size import available_memory  # noqa: PLC0415

    first = settings[0]
    if any(each.device != "cpu" for each in settings):
        raise ModelError("two models share the memory of one process only on a CPU")
    return MemoryPool(first.kv_cache_memory or available_memory(torch.device(first.device)), len(settings))


def _torch_threads() -> Callable[[], None]:
    """Return a function that sets PyTorch's number of threads to that of now.

    Loading a model sets the number that its steps need: those of the compiled kernels leave PyTorch one thread, as its
    waiting threads would take the kernels' cores.
    """
    import torch  # noqa: PLC0415 - importing this module must stay cheap for the worker process

    return partial(torch.set_num_threads, torch.get_num_threads())


def _load(settings: EngineSettings, pool: MemoryPool | None = None) -> SteppingEngine[Any]:
    import torch  # noqa: PLC0415 - importing this module must stay cheap for the worker process

    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    if settings.instructions != "auto" and settings.device == "cpu":
        from inference_worker.engine.native.library import usable_instructions  # noqa: PLC0415

        usable_instructions(settings.instructions)  # raises also for models that PyTorch computes
    source = resolve(settings.model, step_tag=settings.step_tag)
    if source.task is Task.EMBED:
        from inference_worker.engine.embedding.engine import EmbeddingEngine  # noqa: PLC0415

        return EmbeddingEngine.load_model(source, settings)
    if source.task is Task.SCORE:
        from inference_worker.engine.scoring.engine import load_scoring_engine  # noqa: PLC0415

        return load_scoring_engine(source, settings, pool)
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

    return Engine.from_settings(settings, pool)


def _start_failure(error: BaseException) -> str:
    """Describe a start-up error in one line for the operator."""
    text = " ".join(str(error).split())[:500]
    if isinstance(error, MemoryError) or "out of memory" in text.lower() or "can't allocate memory" in text:
        return f"out of memory while loading the model: {text or 'no more memory'}"
    return text if isinstance(error, WorkerError) else f"{type(error).__name__}: {text}"
