"""Runs a worker's engine in a child process, reached by pipes, so that a native crash does not end the worker.

This is the parent's side; `engine_main.py` is the child's. Commands and reports are MessagePack on two pipes, each
served by a thread, so a busy engine never blocks the event loop. Must not import torch.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import queue
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
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

STOP_TIMEOUT = 5.0
"""Seconds that the child may take to exit after `Shutdown`."""

_log = structlog.get_logger(__name__)


@dataclass
class _Child:
    """One run of the engine process, with its command and report queues."""

    process: BaseProcess
    commands: queue.SimpleQueue[Command | None]
    reports: asyncio.Queue[Report | None]
    """Reports received; `None` marks the end of the pipe."""
    ready: bool = False
    """Whether the child has reported `Ready`."""


class ProcessEngine(EngineClient):
    """An engine in a spawned child process; commands and reports go through pipes."""

    def __init__(self, settings: EngineSettings, *, target: engine_main.Target = engine_main.run) -> None:
        """`target` is the child's main function; tests pass their own."""
        self._settings = settings
        self._target = target
        self._child: _Child | None = None
        self._stopping = False

    async def start(self) -> Ready:
        """Start the engine's child process, or a new one after a crash, and wait until its model is loaded.

        Returns:
            The engine's report of the model and its limits.

        Raises:
            EngineStartFailed: the model could not be loaded.
        """
        await self._stop_child()
        self._stopping = False
        child = self._child = await asyncio.to_thread(self._spawn, asyncio.get_running_loop())
        first = await child.reports.get()
        if isinstance(first, Ready):
            child.ready = True
            return first
        await self._stop_child()
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
            await asyncio.to_thread(child.process.join, STOP_TIMEOUT)
            raise EngineDied(f"the engine process ended ({_exit_description(child.process)})")

    def kill(self) -> None:
        """Kill the engine's child process, as after a crash; `reports` then raises `EngineDied`."""
        if self._child is not None:
            self._child.process.kill()

    async def stop(self) -> None:
        """Stop the engine's child process; kill it if it does not exit within `STOP_TIMEOUT`."""
        self._stopping = True
        await self._stop_child()

    def _spawn(self, loop: asyncio.AbstractEventLoop) -> _Child:
        # Spawn, not fork: a forked child would inherit threads' locks, the event loop and the broker's sockets.
        context = multiprocessing.get_context("spawn")
        commands_in, commands_out = context.Pipe(duplex=False)
        reports_in, reports_out = context.Pipe(duplex=False)
        process = context.Process(
            target=self._target, args=(self._settings, commands_in, reports_out), name="engine", daemon=True
        )
        process.start()
        # Close the child's ends here, or neither process would see EOF when the other exits.
        commands_in.close()
        reports_out.close()
        child = _Child(process, queue.SimpleQueue(), asyncio.Queue())
        threading.Thread(target=_send, args=(commands_out, child.commands), name="to-engine", daemon=True).start()
        threading.Thread(
            target=_receive,
            args=(reports_in, child.reports, child.commands, loop),
            name="from-engine",
            daemon=True,
        ).start()
        return child

    async def _stop_child(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.commands.put(Shutdown())
        await asyncio.to_thread(child.process.join, STOP_TIMEOUT)
        if child.process.is_alive():
            _log.warning("engine process killed", reason="did not exit in time")
            child.process.kill()
            await asyncio.to_thread(child.process.join)
        child.commands.put(None)


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
