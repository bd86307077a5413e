"""Reads and writes records of the processes that a launcher started, and stops those that outlive a killed launcher.

A process has `run/NAME.pid`, for operators, and `run/NAME.json`, for our commands.

A record outlives its launcher. Because the kernel reuses pids, a record also has the process's start time, and only a
process that matches both is treated as ours.
"""

from __future__ import annotations

import contextlib
import os
import signal
from enum import StrEnum
from pathlib import Path

import msgspec
import psutil

START_TOLERANCE = 0.05
"""Tolerance when start times are compared: the kernel counts in ticks of 10 ms."""


class ProcessState(StrEnum):
    """State of a supervised process."""

    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    """It died and will be restarted after a delay."""
    REFUSED = "cannot start"
    """It exited with `EXIT_CANNOT_START`; it is retried slowly."""
    STOPPING = "stopping"
    STOPPED = "stopped"


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Record of one process. Times are Unix seconds; `pid` is 0 while it does not run."""

    name: str
    state: ProcessState
    pid: int = 0
    created: float = 0.0
    since: float = 0.0
    restarts: int = 0
    reason: str = ""
    status_url: str = ""
    log: str = ""
    order: int = 0
    """Start order; processes are stopped in reverse."""

    def process(self) -> psutil.Process | None:
        """Return the running operating system process of this record; `None` if it has ended or its pid was reused."""
        if not self.pid:
            return None
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created) < START_TOLERANCE
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None


class ProcessRecords:
    """Reads and writes the process records in one directory, usually `Home.run`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, record: ProcessRecord) -> None:
        """Write the record of one process and its pid file, each atomically."""
        _replace(self._folder / f"{record.name}.json", msgspec.json.encode(record))
        pid_file = self._folder / f"{record.name}.pid"
        if record.pid:
            _replace(pid_file, f"{record.pid}\n".encode())
        else:
            pid_file.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """Delete the record and the pid file of the process `name`."""
        for suffix in ("json", "pid"):
            (self._folder / f"{name}.{suffix}").unlink(missing_ok=True)

    def all(self) -> list[ProcessRecord]:
        """Return the records of all processes in start order; damaged ones are skipped."""
        records = []
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(msgspec.DecodeError, FileNotFoundError):
                records.append(msgspec.json.decode(path.read_bytes(), type=ProcessRecord))
        return sorted(records, key=lambda record: (record.order, record.name))


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(content)
    fresh.replace(path)


def stop_orphans(records: ProcessRecords, *, grace: float) -> list[str]:
    """Stop the processes that a killed launcher left running, in reverse start order; returns their names.

    Each gets SIGTERM twice (the second skips its drain); its process group is killed after `grace` seconds.
    """
    ended = []
    for record in reversed(records.all()):
        process = record.process()
        if process is not None:
            _end(process, grace)
            ended.append(record.name)
        records.remove(record.name)
    return ended


def _end(process: psutil.Process, grace: float) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.terminate()
        process.terminate()
        with contextlib.suppress(psutil.TimeoutExpired):
            process.wait(timeout=grace)
    kill_group(process.pid)


def kill_group(leader: int) -> None:
    """Kill (SIGKILL) all processes of the group that pid `leader` leads, e.g. a supervised worker with its engine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
