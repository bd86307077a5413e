"""Runs the whole platform, as processes, around an engine that only counts: broker, store, billing, gateway, worker.

The same programs with the same settings as `headrace up` starts, supervised in the same way; only the worker is
`tests/fakes/counting_worker.py`, whose engine costs almost nothing, so that the platform's overhead is measured.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from infra.accounts import account_services
from infra.accounts.embedded_store import PROGRAM
from infra.home import environment
from infra.home.home import Home
from infra.home.process_records import ProcessRecords, ProcessState
from infra.home.settings import LauncherSettings
from infra.install.step import ROOT
from infra.launcher.processes import WORKER, PlatformProcesses
from infra.launcher.readiness import free_port, status_is_started
from infra.launcher.supervisor import ProcessSpec, Supervisor
from runtime.lifecycle import StartupError

MODEL = "counting"
INSTALLED = Path(os.environ.get("HEADRACE_HOME") or ROOT / ".headrace").resolve()


@dataclass(frozen=True)
class Processes:
    """Running processes, by whose CPU time a system is measured."""

    roots: dict[str, int]
    """Process ids by name."""

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU seconds that each process, with its children, has used so far, by the process's name."""
        return {name: _cpu_seconds(pid) for name, pid in self.roots.items()}


@dataclass(frozen=True)
class Platform(Processes):
    """A running platform."""

    port: int
    key: str
    gateway_metrics_url: str
    store_url: str


@asynccontextmanager
async def running(*, step_time: float, capacity: int) -> AsyncIterator[Platform]:
    """Run a platform with a counting engine while the context lasts; yield its processes, port and API key.

    Its home is temporary. `step_time` is the engine's seconds per step, `capacity` its number of slots.

    Raises:
        StartupError: a process did not start; the message has its last line of output.
    """
    with TemporaryDirectory(prefix="headrace-bench-") as folder:
        processes = processes_in(folder)
        records = ProcessRecords(processes.home.run)
        supervisor = Supervisor(records, lambda line: print(line, file=sys.stderr))
        try:
            key = await _start(supervisor, processes, step_time, capacity)
            started = {record.name: record for record in records.all()}
            roots = {name: record.pid for name, record in started.items()}
            yield Platform(
                roots,
                processes.settings.port,
                key,
                started["gateway-1"].status_url.replace("/status", "/metrics"),
                processes.store.url,
            )
        finally:
            await supervisor.stop_all()


def processes_in(folder: str) -> PlatformProcesses:
    """Create the files of a platform in the home `folder`, and return its processes on free ports, not started."""
    home = Home(Path(folder))
    home.prepare()
    (home.path / PROGRAM.parts[0]).symlink_to(INSTALLED / PROGRAM.parts[0])
    ports = {name: free_port() for name in ("port", "rabbitmq_port", "rabbitmq_console_port")}
    return PlatformProcesses(environment.load(LauncherSettings, home=home.path, **ports), home)


async def _start(supervisor: Supervisor, processes: PlatformProcesses, step_time: float, capacity: int) -> str:
    async def need(*specs: ProcessSpec) -> None:
        for process in [supervisor.add(spec) for spec in specs]:
            if await process.settled() is not ProcessState.READY:
                raise StartupError(f"{process.spec.name} can't start: {process.reason}")

    await need(processes.rabbitmq(), processes.store_program())
    async with account_services.opened(processes.home, processes.store.url) as access:
        key = await access.write_development_key(f"http://127.0.0.1:{processes.settings.port}/v1")
    await need(processes.billing(), _counting_worker(processes, step_time, capacity))
    await need(processes.gateway())
    return key


def _counting_worker(processes: PlatformProcesses, step_time: float, capacity: int) -> ProcessSpec:
    port = free_port()
    arguments = {
        "--amqp-url": processes.broker.amqp_url("worker"),
        "--model": MODEL,
        "--step-time": str(step_time),
        "--capacity": str(capacity),
        "--ops-port": str(port),
    }
    status = f"http://127.0.0.1:{port}/status"
    return ProcessSpec(
        name="worker-1",
        argv=[
            sys.executable,
            "-m",
            "tests.fakes.counting_worker",
            *(part for pair in arguments.items() for part in pair),
        ],
        environment=os.environ,
        log=processes.home.log / "worker-1.log",
        ready=status_is_started(status),
        status_url=status,
        order=WORKER,
    )


def _cpu_seconds(pid: int) -> float:
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    total = 0.0
    for each in family:
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
