"""Runs a worker's engine in a child process, reached by pipes, so that a native crash does not end the worker.

This is the parent's side; `engine_main.py` is the child's. Commands and reports are MessagePack on two pipes, each
served by a thread, so a busy engine never blocks the event loop. Must not import torch.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import queue
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import msgspec
import structlog

from inference_worker.engine import engine_main
from inference_worker.engine_protocol import (
    Abort,
    Command,
    EngineRequest,
    Ready,
    Report,
    Shutdown,
    StartFailed,
    StepReport,
)
from inference_worker.errors import EngineDied, EngineStartFailed
from inference_worker.settings import EngineSettings
from inference_worker.worker.engine_client import EngineClient

ProcessTarget = Callable[[Sequence[EngineSettings], Sequence[engine_main.Pipes], engine_main.Computing], None]

STOP_TIMEOUT = 5.0
"""Seconds that the child may take to exit after `Shutdown`."""

_log = structlog.get_logger(__name__)


@dataclass
class _Child:
    """One run of the engine process as a client sees it, with its command and report queues."""

    process: BaseProcess
    commands: queue.SimpleQueue[Command | None]
    reports: asyncio.Queue[Report | None]
    """Reports received; `None` marks the end of the pipe."""
    computing: engine_main.Computing
    """Index of the engine in the process whose turn it is."""
    index: int
    """Index of this client's engine."""
    planned_end: threading.Event
    """Set when a client of the process kills it to replace its engine; shared by all clients."""
    ready: bool = False
    """Whether the child has reported `Ready`."""


@dataclass
class _Run:
    """One run of the engine process, with what each client sees of it."""

    process: BaseProcess
    children: list[_Child]
    attached: set[int] = field(default_factory=set)
    """Clients that have started their engine in this run and not stopped it."""
    taken: set[int] = field(default_factory=set)
    """Clients that have started their engine in this run."""


class EngineProcess:
    """A child process with one or several engines, which is started once for all of its clients."""

    def __init__(self, settings: Sequence[EngineSettings], *, target: ProcessTarget = engine_main.run_engines) -> None:
        """`settings`: of each engine; `target`: the child's main function, tests pass their own."""
        self._settings = list(settings)
        self._target = target
        self._run: _Run | None = None
        self._lock = asyncio.Lock()
        self.engines = [ProcessEngine(self, index) for index in range(len(self._settings))]
        """A client of each engine."""

    async def attach(self, index: int) -> _Child:
        """Return client `index`'s side of the process: a new one, unless another client has started it already."""
        async with self._lock:
            run = self._run
            if run is None or index in run.taken or not run.process.is_alive():
                await self._end()
                run = self._run = await asyncio.to_thread(self._spawn, asyncio.get_running_loop())
            run.taken.add(index)
            run.attached.add(index)
            return run.children[index]

    async def detach(self, index: int) -> None:
        """Stop using the process; it ends with its last client, and is killed if it does not within `STOP_TIMEOUT`."""
        run = self._run
        if run is None or index not in run.attached:
            return
        run.attached.discard(index)
        if run.attached:
            run.children[index].reports.put_nowait(None)
        else:
            await self._end()

    def _spawn(self, loop: asyncio.AbstractEventLoop) -> _Run:
        # Spawn, not fork: a forked child would inherit threads' locks, the event loop and the broker's sockets.
        context = multiprocessing.get_context("spawn")
        commands = [context.Pipe(duplex=False) for _ in self._settings]
        reports = [context.Pipe(duplex=False) for _ in self._settings]
        theirs = [
            (commands_in, reports_out) for (commands_in, _), (_, reports_out) in zip(commands, reports, strict=True)
        ]
        computing = context.RawValue("b", engine_main.NOT_COMPUTING)
        process = context.Process(
            target=self._target, args=(self._settings, theirs, computing), name="engine", daemon=True
        )
        process.start()
        children, planned_end = [], threading.Event()
        pipes = zip(commands, reports, strict=True)
        for index, ((commands_in, commands_out), (reports_in, reports_out)) in enumerate(pipes):
            # Close the child's ends here, or neither process would see EOF when the other exits.
            commands_in.close()
            reports_out.close()
            child = _Child(process, queue.SimpleQueue(), asyncio.Queue(), computing, index, planned_end)
            threading.Thread(target=_send, args=(commands_out, child.commands), name="to-engine", daemon=True).start()
            threading.Thread(
                target=_receive,
                args=(reports_in, child.reports, child.commands, loop),
                name="from-engine",
                daemon=True,
            ).start()
            children.append(child)
        return _Run(process, children)

    async def _end(self) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        run.children[0].commands.put(Shutdown())
        await asyncio.to_thread(run.process.join, STOP_TIMEOUT)
        if run.process.is_alive():
            _log.warning("engine process killed", reason="did not exit in time")
            run.process.kill()
            await asyncio.to_thread(run.process.join)
        for child in run.children:
            child.commands.put(None)


class ProcessEngine(EngineClient):
    """An engine in a spawned child process; commands and reports go through pipes."""

    def __init__(self, process: EngineProcess, index: int = 0) -> None:
        """`process` runs the engine, as its number `index`."""
        self._process = process
        self._index = index
        self._child: _Child | None = None
        self._stopping = False

    @classmethod
    def alone(cls, settings: EngineSettings, *, target: engine_main.Target = engine_main.run) -> ProcessEngine:
        """Return an engine with a child process of its own; `target` is that process's main function."""
        return EngineProcess([settings], target=partial(_run_alone, target)).engines[0]

    async def start(self) -> Ready:
        """Start the engine's child process, or a new one after a crash, and wait until its model is loaded.

        Returns:
            The engine's report of the model and its limits.

        Raises:
            EngineStartFailed: the model could not be loaded.
        """
        self._stopping = False
        child = self._child = await self._process.attach(self._index)
        first = await child.reports.get()
        if isinstance(first, Ready):
            child.ready = True
            return first
        await self._leave()
        if isinstance(first, StartFailed):
            raise EngineStartFailed(first.reason)
        raise EngineStartFailed(f"the engine process ended while starting ({_exit_description(child.process)})")

    def submit(self, request: EngineRequest) -> None:
        """Queue a request for the engine's child process; does not wait.

        Raises:
            EngineDied: the child process is not ready.
        """
        if self._child is None or not self._child.ready or not self._child.process.is_alive():
            # A starting child must not get it: `EngineJobHandler` submits all jobs once the child is ready.
            raise EngineDied("the engine process is not running")
        self._child.commands.put(request)

    def abort(self, request: str, choice: int | None = None) -> None:
        """Tell the engine process to stop a request or one of its choices; does nothing if it is not running."""
        if self._child is not None:
            self._child.commands.put(Abort(request=request, choice=choice))

    async def reports(self) -> AsyncIterator[StepReport]:
        """Yield the step reports of the engine's child process, in order; ends after `stop`.

        Raises:
            EngineDied: the child exited without `stop`; all its reports have been yielded before.
        """
        child = self._child
        if child is None:
            raise EngineDied("the engine process was not started")
        while (report := await child.reports.get()) is not None:
            if isinstance(report, StepReport):
                yield report
        if not self._stopping:
            elsewhere = child.planned_end.is_set() or child.computing.value not in (
                engine_main.NOT_COMPUTING,
                child.index,
            )
            await asyncio.to_thread(child.process.join, STOP_TIMEOUT)
            raise EngineDied(f"the engine process ended ({_exit_description(child.process)})", elsewhere=elsewhere)

    def kill(self, *, planned: bool = False) -> None:
        """Kill the engine's child process, as after a crash; `reports` then raises `EngineDied`.

        If `planned`, the crash is not blamed on the other engines in the process.
        """
        if self._child is not None:
            if planned:
                self._child.planned_end.set()
            self._child.process.kill()

    async def stop(self) -> None:
        """Stop the engine's child process, unless other engines in it go on; kill it if it does not exit in time."""
        self._stopping = True
        await self._leave()

    async def _leave(self) -> None:
        self._child = None
        await self._process.detach(self._index)


def _run_alone(
    target: engine_main.Target,
    settings: Sequence[EngineSettings],
    pipes: Sequence[engine_main.Pipes],
    _computing: engine_main.Computing,
) -> None:
    """Call the main function of a child process with one engine."""
    target(settings[0], *pipes[0])


def _send(pipe: Connection, commands: queue.SimpleQueue[Command | None]) -> None:
    encoder = msgspec.msgpack.Encoder()
    with pipe, suppress(OSError):  # broken pipe: the child has exited, which `_receive` reports
        while (command := commands.get()) is not None:
            pipe.send_bytes(encoder.encode(command))


def _receive(
    pipe: Connection,
    reports: asyncio.Queue[Report | None],
    commands: queue.SimpleQueue[Command | None],
    loop: asyncio.AbstractEventLoop,
) -> None:
    decoder: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)
    with suppress(RuntimeError):  # the event loop is closed
        with pipe, suppress(EOFError, OSError):
            while True:
                report = decoder.decode(pipe.recv_bytes())
                loop.call_soon_threadsafe(reports.put_nowait, report)
        loop.call_soon_threadsafe(reports.put_nowait, None)
    commands.put(None)


def _exit_description(process: BaseProcess) -> str:
    code = process.exitcode
    if code is None:
        return "still ending"
    return f"signal {-code}" if code < 0 else f"exit status {code}"
