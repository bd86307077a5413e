"""The whole platform as processes, each behind a TCP proxy that can be cut.

Started and supervised as by `headrace up` (`infra/launcher/supervisor.py`), with production settings. Only the
workers' engines are replaced (`worker_process.py`), and a process that dies often is restarted within seconds instead
of half a minute.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import httpx
import psutil

from benchmarks.platform_stack import processes_in
from infra.accounts import account_services
from infra.accounts.account_services import AccountServices
from infra.home.process_records import ProcessRecord, ProcessRecords, ProcessState, kill_group
from infra.install.step import ROOT
from infra.launcher.processes import BILLING, GATEWAY, WORKER, PlatformProcesses
from infra.launcher.readiness import free_port, status_is_started, url_is_ok
from infra.launcher.supervisor import ProcessSpec, RestartBackoff, Supervisor, last_line
from runtime.lifecycle import StartupError
from tests.chaos.counting_engine import CONTEXT
from tests.chaos.counting_provider import provider
from tests.chaos.mutations import MUTATIONS
from tests.chaos.tcp_proxy import TcpProxy

MODEL = "counting"
ASSISTANT = "assistant"
STORE = "store"
GRACE_PERIOD = 150.0
START_TIMEOUT = 180.0
BACKOFF = RestartBackoff(first=0.3, limit=2.0)
_PORT = re.compile(r":\d+/")


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    gateways: int = 1
    workers: int = 2
    capacity: int = 16
    """Sequences that an engine computes together."""
    step_seconds: float = 0.05
    proxies: int = 0
    """Overflow proxies, all of one provider that counts too."""
    assistants: int = 0
    """Assistants, which clients ask instead of the model, and which answer with it."""


@dataclass
class Stack:
    """A platform that runs, or is being started."""

    size: Size
    processes: PlatformProcesses
    supervisor: Supervisor
    access: AccountServices
    wires: dict[str, TcpProxy] = field(default_factory=dict)
    """Proxies by the process whose broker connection they carry; `STORE` is the one to the store."""
    ports: dict[str, int] = field(default_factory=dict)
    """Of the API, by gateway."""
    provider: str = ""
    """Base URL of the provider."""
    key: str = ""
    mutation: str = ""
    """A bug that its processes have (`mutations.py`)."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Of who restarts a process: one is done after the other."""

    @property
    def home(self) -> Path:
        """Where its data and its logs are."""
        return self.processes.home.path

    @property
    def counts(self) -> Path:
        """Where engines write what they made."""
        return self.home / "counts"

    @property
    def gateways(self) -> list[str]:
        """Their names."""
        return [f"gateway-{number + 1}" for number in range(self.size.gateways)]

    @property
    def workers(self) -> list[str]:
        """Their names."""
        return [f"worker-{number + 1}" for number in range(self.size.workers)]

    @property
    def proxies(self) -> list[str]:
        """Their names."""
        return [f"proxy-{number + 1}" for number in range(self.size.proxies)]

    @property
    def assistants(self) -> list[str]:
        """Their names."""
        return [f"assistant-{number + 1}" for number in range(self.size.assistants)]

    @property
    def model(self) -> str:
        """The model that clients ask."""
        return ASSISTANT if self.assistants else MODEL

    def record(self, name: str) -> ProcessRecord:
        """What is known of a process."""
        return next(record for record in ProcessRecords(self.processes.home.run).all() if record.name == name)

    def process(self, name: str) -> psutil.Process | None:
        """The process, if it lives."""
        return self.record(name).process()

    def engine(self, worker: str) -> psutil.Process | None:
        """A worker's engine, if both live."""
        try:
            process = self.process(worker)
            told = None if process is None else self.counts / f"{worker}-{process.pid}.pid"
            return psutil.Process(int(told.read_text())) if told is not None and told.exists() else None
        except psutil.NoSuchProcess:
            return None

    def is_ready(self, name: str) -> bool:
        """Whether a process has said that it is."""
        return self.record(name).state is ProcessState.READY

    async def restart(self, name: str) -> None:
        """As `headrace restart` does: SIGTERM, wait, start."""
        process = self.supervisor[name]
        async with self._turn:
            await process.stop()
            process.start()
            await process.settled()

    def spec(self, name: str) -> ProcessSpec:
        """How a process of ours is run."""
        if name in self.gateways:
            own = {"HEADRACE_HOST": "127.0.0.1", "HEADRACE_PORT": str(self.ports[name])}
            arguments = ["infra.cli", "gateway", "--id", name]
            return self._spec(name, arguments, GATEWAY, own | self._accounts("gateway", name))
        if name in self.workers:
            own = {
                "HEADRACE_AMQP_URL": self._amqp("worker", name),
                "HEADRACE_CONTROL_SECRET": self.processes.control_secret,
                "HEADRACE_MODEL": MODEL,
                "HEADRACE_SERVED_MODEL_NAME": MODEL,
                "HEADRACE_ID": name,
                "HEADRACE_MAX_NUM_SEQS": str(self.size.capacity),
                "CHAOS_STEP_SECONDS": str(self.size.step_seconds),
                "CHAOS_COUNTS": str(self.counts),
            }
            spec = self._spec(name, ["tests.chaos.worker_process"], WORKER, own)
            return replace(spec, ready=status_is_started(spec.status_url))
        if name in self.proxies:
            own = {
                "HEADRACE_AMQP_URL": self._amqp("proxy", name),
                "HEADRACE_CONTROL_SECRET": self.processes.control_secret,
                "HEADRACE_PROXY_CONFIG": str(self._catalogue()),
            }
            return self._spec(name, ["infra.cli", "proxy", "--id", name], WORKER, own)
        if name in self.assistants:
            own = {
                "HEADRACE_AMQP_URL": self._amqp("assistant", name),
                "HEADRACE_CONTROL_SECRET": self.processes.control_secret,
                "HEADRACE_ASSISTANT_CONFIG": str(self._assistants_catalogue()),
            }
            return self._spec(name, ["infra.cli", "assistant", "--id", name], WORKER, own)
        return self._spec(name, ["infra.cli", "billing"], BILLING, self._accounts("billing", name))

    def _catalogue(self) -> Path:
        """Write the proxies' file of models."""
        path = self.home / "proxy.toml"
        path.write_text(
            f'[upstreams.provider]\nbase_url = "{self.provider}"\n\n[models.{MODEL}]\noverflow = true\n'
            f'max_model_len = {CONTEXT}\nconcurrency = {self.size.capacity}\nroutes = [{{ upstream = "provider" }}]\n'
        )
        return path

    def _assistants_catalogue(self) -> Path:
        """Write the assistants' catalogue: the model phrases all answers, which makes them long."""
        path = self.home / "assistant.toml"
        path.write_text(f'[models.{ASSISTANT}]\ntools = ["math"]\nphrases = "model"\n')
        return path

    def _accounts(self, user: str, name: str) -> dict[str, str]:
        store = _PORT.sub(f":{self.wires[STORE].port}/", self.processes.store.url)
        return {"HEADRACE_AMQP_URL": self._amqp(user, name), "HEADRACE_MONGODB_URL": store}

    def _amqp(self, user: str, name: str) -> str:
        return _PORT.sub(f":{self.wires[name].port}/", self.processes.broker.amqp_url(user))

    def _spec(self, name: str, program: list[str], order: int, own: Mapping[str, str]) -> ProcessSpec:
        port = free_port()
        plain = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        common = {
            "HEADRACE_HOME": str(self.home),
            "HEADRACE_OPS_HOST": "127.0.0.1",
            "HEADRACE_OPS_PORT": str(port),
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": str(ROOT),
        }
        mutant = self.mutation and name.startswith(MUTATIONS[self.mutation].role)
        wrapper = ["tests.chaos.mutations", self.mutation] if mutant else []
        return ProcessSpec(
            name=name,
            argv=[sys.executable, "-m", *wrapper, *program],
            environment={**plain, **common, **own},
            log=self.processes.home.log / f"{name}.log",
            ready=url_is_ok(f"http://127.0.0.1:{port}/healthz"),
            grace=GRACE_PERIOD,
            status_url=f"http://127.0.0.1:{port}/status",
            order=order,
        )


StackT = TypeVar("StackT", bound=Stack)


@asynccontextmanager
async def running(size: Size, mutation: str = "", kind: type[StackT] = Stack) -> AsyncIterator[StackT]:  # type: ignore[assignment]
    """A platform of a `kind` in a home of its own, gone without a trace afterwards; a `mutation` is a bug that it has.

    Raises:
        StartupError: something did not start; the message has its last line.
    """
    async with AsyncExitStack() as ends:
        processes = processes_in(ends.enter_context(TemporaryDirectory(prefix="headrace-chaos-")))
        home = processes.home
        (home.path / "counts").mkdir()
        supervisor = Supervisor(ProcessRecords(home.run), lambda _: None, BACKOFF)
        ends.push_async_callback(_end, supervisor, ProcessRecords(home.run))
        await _need(supervisor, processes.rabbitmq(), processes.store_program())
        access = await ends.enter_async_context(account_services.opened(home, processes.store.url))
        stack = kind(size, processes, supervisor, access, mutation=mutation)
        stack.ports.update({name: free_port() for name in stack.gateways})
        for name in ("billing", *stack.workers, *stack.proxies, *stack.assistants, *stack.gateways, STORE):
            wire = TcpProxy(processes.store.port if name == STORE else processes.broker.ports.amqp)
            await wire.start()
            ends.push_async_callback(wire.stop)
            stack.wires[name] = wire
        stack.key = await access.write_development_key(f"http://127.0.0.1:{stack.ports['gateway-1']}/v1")
        await _need(supervisor, stack.spec("billing"), *map(stack.spec, stack.workers))
        await _need(supervisor, *map(stack.spec, [*stack.gateways, *stack.assistants]))
        for port in stack.ports.values():
            await _listed(stack.model, port, stack.key)
        stack.provider = await ends.enter_async_context(provider(stack.counts, size.step_seconds))
        await _need(supervisor, *map(stack.spec, stack.proxies))
        yield stack


async def _listed(model: str, port: int, key: str) -> None:
    """Wait until a gateway lists a model: an assistant is known once its answering model is."""
    headers = {"authorization": f"Bearer {key}"}
    async with asyncio.timeout(START_TIMEOUT), httpx.AsyncClient(headers=headers) as client:
        while model not in (await client.get(f"http://127.0.0.1:{port}/v1/models")).text:
            await asyncio.sleep(0.2)


async def _need(supervisor: Supervisor, *specs: ProcessSpec) -> None:
    for process in [supervisor.add(spec) for spec in specs]:
        try:
            async with asyncio.timeout(START_TIMEOUT):
                state = await process.settled()
        except TimeoutError as error:
            raise StartupError(f"{process.spec.name} does not start: {last_line(process.spec.log)}") from error
        if state is not ProcessState.READY:
            raise StartupError(f"{process.spec.name} can't start: {process.reason}")


async def _end(supervisor: Supervisor, records: ProcessRecords) -> None:
    """At once: nothing of it is needed any more."""
    supervisor.stop_now()
    for record in records.all():
        if (process := record.process()) is not None:
            kill_group(process.pid)
    await supervisor.stop_all()
