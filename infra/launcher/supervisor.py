"""Supervises processes: starts them in order, restarts dead ones with backoff, and stops them gracefully.

By exit status:

====================  ==============================================================================
0                     stopped on purpose (also by an operator's SIGTERM): not restarted
78 (`EX_CONFIG`)      it can't start, its last log line says why: reported, retried slowly
any other             it died: restarted after a delay that doubles with each death before it was ready
====================  ==============================================================================
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import psutil

from infra.home.process_records import ProcessRecord, ProcessRecords, ProcessState, kill_group
from runtime.lifecycle import EXIT_CANNOT_START
from runtime.parent_death import end_with_parent
from runtime.retry import delay_after, exponential_backoff

LOG_LIMIT_BYTES = 32 * 1024 * 1024
KILL_DELAY = 5.0
"""Seconds from the second SIGTERM to SIGKILL."""


@dataclass(frozen=True)
class ProcessSpec:
    """Definition of a process to keep running.

    `ready` is polled until it returns true; `grace` is the time in seconds from SIGTERM to SIGKILL.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    ready: Callable[[], Awaitable[bool]]
    grace: float = 10.0
    status_url: str = ""
    order: int = 0


@dataclass(frozen=True)
class RestartBackoff:
    """Delays, in seconds, before a dead process is restarted. Jitter keeps processes from restarting together."""

    first: float = 0.5
    limit: float = 30.0
    refused: float = 15.0
    """Delay after a process exited with `EXIT_CANNOT_START`."""
    poll: float = 0.1
    """Seconds between two readiness checks."""

    def pause(self, deaths: int) -> float:
        """Return the seconds before a restart after `deaths` exits in a row (1 or more) of a process not ready."""
        return delay_after(deaths, exponential_backoff(self.first, self.limit))


class SupervisedProcess:
    """Keeps one process running: starts it, restarts it with backoff when it dies, and records its state."""

    def __init__(
        self, spec: ProcessSpec, records: ProcessRecords, backoff: RestartBackoff, notify: Callable[[str], None]
    ) -> None:
        self.spec = spec
        self._records = records
        self._backoff = backoff
        self._notify = notify
        self._record = ProcessRecord(
            name=spec.name,
            state=ProcessState.STOPPED,
            status_url=spec.status_url,
            log=str(spec.log),
            order=spec.order,
        )
        self._stopping = asyncio.Event()
        self._settled = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._was_ready = False
        """Whether the latest run of the process became ready."""
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> ProcessState:
        """Current state of the process, as its process record has it."""
        return self._record.state

    @property
    def reason(self) -> str:
        """Why the process does not run; empty if it runs or the reason is not known."""
        return self._record.reason

    def start(self) -> None:
        """Start the process and supervise it: restart it when it dies. No effect if it is supervised already."""
        if self._task is None or self._task.done():
            self._stopping.clear()
            self._settled.clear()
            self._task = asyncio.create_task(self._keep_running(), name=f"keep {self.spec.name} running")

    async def settled(self) -> ProcessState:
        """Wait until the process is ready, can't start, or was stopped; return that state."""
        await self._settled.wait()
        return self.state

    async def stop(self) -> None:
        """Stop the process by SIGTERM, or SIGKILL after its grace, and wait until it has ended. Idempotent."""
        self._stopping.set()
        if self._task is None or self._task.done():
            return
        if self._process is not None and self._process.returncode is None:
            self._change(ProcessState.STOPPING)
            self._signal(signal.SIGTERM)
            await self._within(self.spec.grace)
        await self._task

    def stop_now(self) -> None:
        """Stop the process without drain or waiting: send SIGTERM (again), and SIGKILL after `KILL_DELAY`."""
        self._stopping.set()
        if self._process is not None and self._process.returncode is None:
            self._signal(signal.SIGTERM)
            asyncio.get_running_loop().call_later(KILL_DELAY, kill_group, self._process.pid)

    async def _within(self, grace: float) -> None:
        process = self._process
        if process is None:
            return
        try:
            await asyncio.wait_for(process.wait(), grace)
        except TimeoutError:
            self._notify(f"{self.spec.name} did not stop within {grace:.0f} s: killed")
            kill_group(process.pid)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _keep_running(self) -> None:
        deaths = 0
        while not self._stopping.is_set():
            status = await self._run_once()
            if self._stopping.is_set() or status == 0:
                break
            deaths = 1 if self._was_ready else deaths + 1
            await self._pause(status, deaths)
        self._change(ProcessState.STOPPED)
        self._settled.set()

    async def _run_once(self) -> int:
        """Run the process to its end and return its exit status (negative: the signal that ended it)."""
        _rotate(self.spec.log)
        with self.spec.log.open("ab") as log:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self.spec.argv,
                    env=dict(self.spec.environment),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=partial(end_with_parent, os.getpid()),
                )
            except OSError as error:
                log.write(f"headrace: {self.spec.argv[0]}: {error.strerror}\n".encode())
                return EXIT_CANNOT_START
        self._process = process
        self._started(process.pid)
        readiness = asyncio.create_task(self._watch_readiness())
        try:
            return await process.wait()
        finally:
            readiness.cancel()
            kill_group(process.pid)

    def _started(self, pid: int) -> None:
        created = 0.0
        with contextlib.suppress(psutil.NoSuchProcess):
            created = psutil.Process(pid).create_time()
        self._was_ready = False
        self._change(ProcessState.STARTING, pid=pid, created=created)
        if self._stopping.is_set():  # `stop` was called while the process was being created
            self._signal(signal.SIGTERM)

    async def _watch_readiness(self) -> None:
        ready = False
        while not ready:
            await asyncio.sleep(self._backoff.poll)
            ready = await self.spec.ready()
        self._was_ready = True
        if self.state is ProcessState.STARTING:
            self._change(ProcessState.READY)
            self._settled.set()

    async def _pause(self, status: int, deaths: int) -> None:
        refused = status == EXIT_CANNOT_START
        reason = last_line(self.spec.log) if refused else _describe_exit(status, self.spec.log)
        pause = self._backoff.refused if refused else self._backoff.pause(deaths)
        self._change(ProcessState.REFUSED if refused else ProcessState.WAITING, reason=reason)
        event = f"can't start: {reason}" if refused else reason
        self._notify(f"{self.spec.name} {event}; retrying in {pause:.1f} s")
        if refused:
            self._settled.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), pause)
        self._record = msgspec.structs.replace(self._record, restarts=self._record.restarts + 1)

    def _change(self, state: ProcessState, *, reason: str = "", pid: int | None = None, created: float = 0.0) -> None:
        running = state in (ProcessState.READY, ProcessState.STOPPING)
        self._record = msgspec.structs.replace(
            self._record,
            state=state,
            reason=reason,
            since=time.time(),
            pid=pid if pid is not None else self._record.pid if running else 0,
            created=created if pid is not None else self._record.created if running else 0.0,
        )
        self._records.write(self._record)


def _describe_exit(status: int, log: Path) -> str:
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status} ({last_line(log)})"


def last_line(log: Path, *, window: int = 4096) -> str:
    """Return the last line of a process's log file, to report its exit, without the `headrace:` prefix.

    Reads the last `window` bytes only.
    """
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - window))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip().removeprefix("headrace: ") if lines else "no reason given"


def _rotate(log: Path) -> None:
    if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
        log.replace(log.with_suffix(".log.1"))


class Supervisor:
    """The supervised processes of one launcher, by name, in the order they were added."""

    def __init__(
        self, records: ProcessRecords, notify: Callable[[str], None], backoff: RestartBackoff | None = None
    ) -> None:
        self._records = records
        self._notify = notify
        self._backoff = backoff or RestartBackoff()
        self._processes: dict[str, SupervisedProcess] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._processes

    def names(self) -> list[str]:
        """Return the names of all supervised processes, in start order."""
        return list(self._processes)

    def __getitem__(self, name: str) -> SupervisedProcess:
        return self._processes[name]

    def add(self, spec: ProcessSpec) -> SupervisedProcess:
        """Start the process of `spec` and supervise it: restart it when it dies; return its handle."""
        process = SupervisedProcess(spec, self._records, self._backoff, self._notify)
        self._processes[spec.name] = process
        process.start()
        return process

    async def remove(self, name: str) -> None:
        """Stop the process `name`, wait for its end, and end its supervision."""
        process = self._processes[name]
        await process.stop()
        del self._processes[name]
        self._records.remove(name)

    async def stop_all(self) -> None:
        """Stop all processes in reverse start order, and wait; those of the same `order` stop concurrently."""
        for order in sorted({process.spec.order for process in self._processes.values()}, reverse=True):
            await asyncio.gather(
                *(self.remove(name) for name in self.names() if self._processes[name].spec.order == order)
            )

    def stop_now(self) -> None:
        """Stop all processes without drain or waiting: send SIGTERM again, and SIGKILL after `KILL_DELAY`."""
        for process in self._processes.values():
            process.stop_now()
