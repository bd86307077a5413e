"""Launcher `headrace up`: starts, supervises, scales and stops the platform's processes on this machine.

The processes are defined in `infra/launcher/processes.py` and kept running by `infra/launcher/supervisor.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from infra.accounts import account_services, sign_in_services
from infra.home.home import HomeLocked, LockHolder, lock_home
from infra.home.process_records import ProcessRecords, ProcessState, stop_orphans
from infra.home.settings import LauncherSettings
from infra.install.step import StepFailed, apt_install, can_use_apt
from infra.launcher import command_socket
from infra.launcher.command_socket import Command, CommandRejected
from infra.launcher.processes import PlatformProcesses, worker_name
from infra.launcher.readiness import is_free
from infra.launcher.supervisor import ProcessSpec, Supervisor
from infra.rabbitmq.node import BrokerNotInstalled, find_program
from runtime.lifecycle import StartupError, stop_on_signals

ORPHAN_GRACE = 10.0
"""Seconds that processes of a launcher that died may take to end."""
MAX_WORKERS = 64
PrintLine = Callable[[str], None]


class PlatformLauncher:
    """Launcher that runs the platform as supervised processes on this machine (`headrace up`)."""

    def __init__(
        self,
        settings: LauncherSettings,
        print_line: PrintLine,
        print_banner: Callable[[PlatformProcesses, list[str], str, str], None],
    ) -> None:
        self._settings = settings
        self._home = settings.folder
        self._print_line = print_line
        self._print_banner = print_banner
        self._records = ProcessRecords(self._home.run)
        self._processes = PlatformProcesses(settings, self._home)
        self._supervisor = Supervisor(self._records, print_line)
        self._scaling = asyncio.Lock()
        self._key = ""
        self._owner_token = ""

    async def run(self) -> None:
        """Start all processes of the platform, restart dead ones until SIGTERM or Ctrl-C, then stop all.

        Raises:
            HomeLocked: a launcher runs in this home already.
            StartupError: a required process can't start.
        """
        self._home.prepare()
        holder = LockHolder("up", os.getpid(), self._settings.url)
        stop = asyncio.Event()
        stop_on_signals(stop, again=self._supervisor.stop_now)
        with lock_home(self._home, holder):
            await self._clean_up()
            self._check_ports()
            try:
                await self._until(stop, self._start())
                if not stop.is_set():
                    async with command_socket.listening(self._home, self.handle_command):
                        self._print_banner(self._processes, self._supervisor.names(), self._key, self._owner_token)
                        await stop.wait()
            finally:
                await self._stop()

    async def _until(self, stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`; cancel it if `stop` is set first."""
        task = asyncio.create_task(work)
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        elif not task.cancelled():
            task.result()

    async def _clean_up(self) -> None:
        orphans = await asyncio.to_thread(stop_orphans, self._records, grace=ORPHAN_GRACE)
        if orphans:
            self._print_line(f"stopped processes that a killed launcher had left running: {', '.join(orphans)}")

    def _check_ports(self) -> None:
        wanted = {
            "HEADRACE_PORT": (self._settings.host, self._settings.port),
            "HEADRACE_RABBITMQ_PORT": ("127.0.0.1", self._settings.rabbitmq_port),
            "HEADRACE_RABBITMQ_CONSOLE_PORT": ("127.0.0.1", self._settings.rabbitmq_console_port),
        }
        for variable, (host, port) in wanted.items():
            if not is_free(host, port):
                raise StartupError(f"port {port} is taken: choose another by {variable}")

    async def _start(self) -> None:
        await asyncio.to_thread(_ensure_rabbitmq, self._print_line, self._home.log / "rabbitmq.log")
        broker = self._processes.rabbitmq()
        self._print_line("starting RabbitMQ and the store ...")
        await asyncio.gather(self._require(broker), self._require(self._processes.store_program()))
        async with account_services.opened(self._home, self._processes.store.url) as access:
            self._key = await access.write_development_key(f"{self._settings.url}/v1")
            self._owner_token = await sign_in_services.first_owner_token(access)
        self._print_line("starting billing, workers (loading the model) and gateway ...")
        await self._require(self._processes.billing())
        workers = self._settings.workers
        await asyncio.gather(*(self._start_worker(number, of=workers) for number in range(1, workers + 1)))
        if self._settings.proxy_config:
            await self._require(self._processes.proxy())
        if self._settings.assistant:
            await self._require(self._processes.assistant())
        # Last, so that requests are accepted only once they can be answered.
        await self._require(self._processes.gateway())

    async def _require(self, spec: ProcessSpec) -> None:
        """Start a required process."""
        process = self._supervisor.add(spec)
        if await process.settled() is ProcessState.REFUSED:
            raise StartupError(f"{spec.name} can't start: {process.reason}")

    async def _start_worker(self, number: int, *, of: int) -> ProcessState:
        """Start a worker. One that can't start is retried; the platform runs without it."""
        return await self._supervisor.add(self._processes.worker(number, of=of)).settled()

    async def _stop(self) -> None:
        if self._supervisor.names():
            self._print_line("stopping: waiting for running streams (Ctrl-C again stops at once) ...")
        await self._supervisor.stop_all()

    # Commands

    async def handle_command(self, command: Command) -> str:
        """Execute one command from the command socket: scale workers, or stop, start or restart a process.

        Return a message for the operator.

        Raises:
            CommandRejected: it can't be executed.
        """
        if command.do == "scale":
            return await self._scale(command.workers)
        if command.name not in self._supervisor:
            raise CommandRejected(f"no process {command.name!r}; there are {', '.join(self._supervisor.names())}")
        process = self._supervisor[command.name]
        if command.do in ("stop", "restart"):
            await process.stop()
        if command.do in ("start", "restart"):
            process.start()
            state = await process.settled()
            return f"{command.name}: {state.value}{': ' + process.reason if process.reason else ''}"
        return f"{command.name}: stopped"

    async def _scale(self, wanted: int) -> str:
        """Scale to `wanted` workers; surplus ones drain."""
        if not 1 <= wanted <= MAX_WORKERS:
            raise CommandRejected(f"between 1 and {MAX_WORKERS} workers, not {wanted}")
        async with self._scaling:
            names = {worker_name(number): number for number in range(1, wanted + 1)}
            surplus = [name for name in self._supervisor.names() if name.startswith("worker-") and name not in names]
            missing = [number for name, number in names.items() if name not in self._supervisor]
            await asyncio.gather(
                *(self._supervisor.remove(name) for name in surplus),
                *(self._start_worker(number, of=wanted) for number in missing),
            )
        self._print_line(f"{wanted} workers")
        return f"{wanted} workers: {len(missing)} started, {len(surplus)} drained"


def run_or_scale(
    launcher: PlatformLauncher, settings: LauncherSettings, workers: int | None, print_line: PrintLine
) -> None:
    """Run the platform by `launcher`, or scale the platform that already runs in this home to `workers`.

    Raises:
        StartupError: it can't start, or `headrace serve` runs in this home.
    """
    try:
        asyncio.run(launcher.run())
    except HomeLocked as error:
        if error.holder.kind != "up":
            raise
        if workers is None:
            print_line(
                f"the platform is already running ({error.holder.url}, pid {error.holder.pid}); `--workers N` scales it"
            )
            return
        print_line(command_socket.send_command(settings.folder, Command("scale", workers=workers)))


def _ensure_rabbitmq(print_line: PrintLine, log: Path) -> None:
    """Install Debian's `rabbitmq-server` if it is missing; `log` gets the output of `apt-get`.

    Raises:
        BrokerNotInstalled: it is missing and this process is not root; the message says what to run.
        StartupError: `apt-get` failed.
    """
    try:
        find_program("rabbitmq-server")
    except BrokerNotInstalled:
        if not can_use_apt():
            raise
        print_line("RabbitMQ is not installed: apt-get install rabbitmq-server (about a minute) ...")
        try:
            apt_install(["rabbitmq-server"], log)
        except StepFailed as error:
            raise StartupError(str(error)) from error
        find_program("rabbitmq-server")
