"""What is written down of each process that a launcher started: `run/NAME.pid` for people, `run/NAME.json` for us.

A record outlives its launcher. A pid alone says little (the kernel uses it again), so a record also holds
the process's start time, and only a process with both is taken for ours. Knows nothing of what a process does.
"""

from __future__ import annotations

import contextlib
import os
import signal
from enum import StrEnum
from pathlib import Path

import msgspec
import psutil

SAME_START_SECONDS = 0.05
"""Start times are compared with this tolerance: the kernel counts in ticks of 10 ms."""


class ProcessState(StrEnum):
    """What a launcher knows of a process."""

    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    """It died and is started again after a pause."""
    REFUSED = "cannot start"
    """It said why it can't start; it is tried again now and then."""
    STOPPING = "stopping"
    STOPPED = "stopped"


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One process, as written down. Times are Unix seconds; `pid` 0 means that it does not run."""

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
    """Started in this order, stopped in the opposite one."""

    def process(self) -> psutil.Process | None:
        """The living process that this record is about."""
        if not self.pid:
            return None
        try:
            process = psutil.Process(self.pid)
            alive = abs(process.create_time() - self.created) < SAME_START_SECONDS and _alive(process)
        except psutil.NoSuchProcess:
            return None
        return process if alive else None


def _alive(process: psutil.Process) -> bool:
    return process.status() != psutil.STATUS_ZOMBIE


class ProcessRecords:
    """The records in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, record: ProcessRecord) -> None:
        """Write a record, atomically, and its pid file."""
        _replace(self._folder / f"{record.name}.json", msgspec.json.encode(record))
        pid_file = self._folder / f"{record.name}.pid"
        if record.pid:
            _replace(pid_file, f"{record.pid}\n".encode())
        else:
            pid_file.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """Forget a process."""
        for suffix in ("json", "pid"):
            (self._folder / f"{name}.{suffix}").unlink(missing_ok=True)

    def all(self) -> list[ProcessRecord]:
        """Every record, in start order; a damaged one is passed over."""
        records = []
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(msgspec.DecodeError, FileNotFoundError):
                records.append(msgspec.json.decode(path.read_bytes(), type=ProcessRecord))
        return sorted(records, key=lambda record: (record.order, record.name))


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(content)
    fresh.replace(path)


def end_orphans(records: ProcessRecords, *, grace: float) -> list[str]:
    """End what a launcher that was killed left running, last started first; returns their names.

    Each is asked twice (the second SIGTERM means: do not drain) and killed with its group after `grace` seconds.
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
    """Kill what is left of a process group (a worker's engine, say). Every process of ours leads a group of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
