"""The platform of kill tests: two workers for text, two for images, two assistants, an MCP server, gateways."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psutil

from auth_billing.prices.price_book import PriceBook
from auth_billing.prices.pricing import TokenRate
from auth_billing.store.prices import MongoPriceStore
from infra.home.process_records import kill_group
from infra.launcher.processes import WORKER
from infra.launcher.readiness import status_is_started
from infra.launcher.supervisor import ProcessSpec
from router.messages import ServiceClass
from tests.chaos.stack import ASSISTANT, MODEL, START_TIMEOUT, Size, Stack, running
from tests.kills.engines import SIZE
from tests.kills.gates import FOLDER_VARIABLE, Gates

PAINTER = "painter"
PRICES = {PAINTER: {SIZE: 4_000_000}, "tool.math": {"call": 1_000}, "tool.mcp.desk.look": {"call": 3_000}}
"""Nano-USD of each unit, by model."""
TOOL_MODULES = ("tests.kills.desk", "runtime.sandbox.fork_server_main")
"""What the command lines of tools' processes contain."""

_CATALOGUE = f"""
[models.{ASSISTANT}]
answers_with = "{MODEL}"
tools = ["math", "image", "mcp.desk.look"]
routing = {{ way = "function" }}
rewrites = "model"
phrases = "model"

[tools.image]
model = "{PAINTER}"

[mcp.desk]
command = ["{sys.executable}", "-m", "tests.kills.desk"]
env = ["PYTHONPATH", "{FOLDER_VARIABLE}"]
tools = ["look"]
time_limit = 120
"""


class KillStack(Stack):
    """A platform whose requests can be held in a phase."""

    @property
    def painters(self) -> list[str]:
        """Names of the workers that draw, as many as there are for text."""
        return [f"painter-{number + 1}" for number in range(self.size.workers)]

    @property
    def workers(self) -> list[str]:
        """Names of all workers."""
        return [*self.talkers, *self.painters]

    @property
    def talkers(self) -> list[str]:
        """Names of the workers that generate text."""
        return super().workers

    @property
    def gates(self) -> Gates:
        """The gates of all requests."""
        folder = self.home / "gates"
        folder.mkdir(exist_ok=True)
        return Gates(folder)

    def spec(self, name: str) -> ProcessSpec:
        """How a process of ours is run."""
        own = {FOLDER_VARIABLE: str(self.gates.folder)}
        if name in (*self.gateways, *self.assistants):
            own["HEADRACE_NO_WORKER_TIMEOUT"] = str(START_TIMEOUT)
        if name in self.workers:
            spec = self._worker(name)
        else:
            spec = super().spec(name)
            if name in self.assistants:
                own |= self._accounts("assistant", name)
        return replace(spec, environment={**spec.environment, **own})

    def _worker(self, name: str) -> ProcessSpec:
        draws = name in self.painters
        model = PAINTER if draws else MODEL
        own = {
            "HEADRACE_AMQP_URL": self._amqp("worker", name),
            "HEADRACE_CONTROL_SECRET": self.processes.control_secret,
            "HEADRACE_MODEL": model,
            "HEADRACE_SERVED_MODEL_NAME": model,
            "HEADRACE_ID": name,
            "HEADRACE_MAX_NUM_SEQS": str(self.size.capacity),
            "CHAOS_STEP_SECONDS": str(self.size.step_seconds),
            "CHAOS_COUNTS": str(self.counts),
            "KILLS_DRAWS": "1" if draws else "",
        }
        spec = self._spec(name, ["tests.kills.worker_process"], WORKER, own)
        return replace(spec, ready=status_is_started(spec.status_url))

    def _assistants_catalogue(self) -> Path:
        path = self.home / "assistant.toml"
        path.write_text(_CATALOGUE)
        return path

    # Victims

    def kill(self, name: str) -> int:
        """`kill -9` a process and all of its children; return its id. The supervisor starts it again."""
        pid = self.record(name).pid
        kill_group(pid)
        return pid

    async def back(self, name: str, killed: int) -> None:
        """Wait until a killed process is ready again."""
        async with asyncio.timeout(START_TIMEOUT):
            while self.record(name).pid == killed or not self.is_ready(name):
                await asyncio.sleep(0.05)

    def tool_processes(self, module: str) -> list[psutil.Process]:
        """Return the processes of tools that run `module`, below the assistants."""
        found = []
        for name in self.assistants:
            try:
                process = self.process(name)
                below = [] if process is None else process.children(recursive=True)
                found += [each for each in below if module in " ".join(each.cmdline())]
            except psutil.NoSuchProcess:
                continue
        return found

    def left_over(self) -> list[str]:
        """Return the command lines of tools' processes of this platform that have no assistant."""
        below = {each.pid for module in TOOL_MODULES for each in self.tool_processes(module)}
        found = []
        for process in psutil.process_iter(["pid", "cmdline"]):
            line = " ".join(process.info["cmdline"] or ())
            mine = any(module in line for module in TOOL_MODULES) and process.info["pid"] not in below
            if mine and self._is_of_this_platform(process):
                found.append(line[:200])
        return found

    def _is_of_this_platform(self, process: psutil.Process) -> bool:
        """Sandboxed processes have an empty environment: those that no living process of another platform has."""
        try:
            environment = process.environ()
            if FOLDER_VARIABLE in environment:
                return environment[FOLDER_VARIABLE] == str(self.gates.folder)
            return process.ppid() == 1
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False


@asynccontextmanager
async def stage(of_each: int) -> AsyncIterator[KillStack]:
    """Provide a platform with two gateways, so many assistants and workers, and prices for all that is used.

    Raises:
        StartupError: a process did not start.
    """
    size = Size(gateways=2, workers=of_each, assistants=of_each, step_seconds=0.01, capacity=32)
    async with running(size, kind=KillStack) as stack:
        prices = PriceBook(MongoPriceStore(stack.access.connection))
        for model, units in PRICES.items():
            rates = dict.fromkeys(ServiceClass, TokenRate(0, 0, 0, units=units))
            await prices.edit(model, rates, seen=(await prices.newest()).prices.version)
        yield stack
