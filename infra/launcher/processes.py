"""The platform's processes on one machine: which programs, in which order, with which settings, ready when.

Each is the same program as in production (`headrace gateway`, `headrace worker`, ...) with other
addresses. Does not start anything: `infra/launcher/supervisor.py` does.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from auth_billing.keys.pepper import control_secret, load_pepper
from infra.accounts import embedded_store
from infra.accounts.embedded_store import EmbeddedStore, answers
from infra.home.credentials import broker_passwords, write_secret
from infra.home.home import Home
from infra.home.settings import LauncherSettings
from infra.launcher.readiness import free_port, port_speaks, state_is_past_starting, url_says_yes
from infra.launcher.supervisor import ProcessSpec
from infra.rabbitmq import definitions
from infra.rabbitmq.node import NodePorts, RabbitMQNode
from router.control_signing import SECRET_FILE_NAME as CONTROL_SECRET

BROKER, STORE, BILLING, GATEWAY, WORKER = range(5)
"""Start order; stopping goes backwards, so that nobody loses what it stands on."""

AMQP_GREETING = b"AMQP\x00\x00\x09\x01"
AMQP_METHOD_FRAME = b"\x01"
DRAIN_SECONDS = 120.0
"""How long running streams may take when a worker or gateway stops (docs/design/reliability-contract.md#F2, F18)."""
MARGIN_SECONDS = 15.0


def worker_name(number: int) -> str:
    """`worker-1`, `worker-2`, ..."""
    return f"worker-{number}"


@dataclass(frozen=True)
class PlatformProcesses:
    """Makes the process specs of one platform."""

    settings: LauncherSettings
    home: Home

    @cached_property
    def broker(self) -> RabbitMQNode:
        """The private RabbitMQ node."""
        ports = NodePorts(
            amqp=self.settings.rabbitmq_port,
            management=self.settings.rabbitmq_console_port,
            prometheus=free_port(),
            distribution=free_port(),
            epmd=free_port(),
        )
        passwords = broker_passwords(self.home, definitions.permissions())
        return RabbitMQNode(self.home.path / "rabbitmq", ports, passwords)

    @property
    def console_url(self) -> str:
        """The page of RabbitMQ's console that shows the queues."""
        return f"{self.broker.management_url}/#/queues"

    @cached_property
    def control_secret(self) -> str:
        """What workers and proxies check control messages by; also in a file, for those that are added by hand."""
        secret = os.environ.get("HEADRACE_CONTROL_SECRET") or control_secret(
            load_pepper(self.home.path, os.environ.get("HEADRACE_API_KEY_PEPPER", ""))
        )
        write_secret(self.home.secrets / CONTROL_SECRET, secret + "\n")
        return secret

    @cached_property
    def store(self) -> EmbeddedStore:
        """The store program."""
        return EmbeddedStore(self.home.path, port=free_port())

    def rabbitmq(self) -> ProcessSpec:
        """RabbitMQ, ready when it answers a protocol greeting."""
        argv, environment = self.broker.command()
        return ProcessSpec(
            name="rabbitmq",
            argv=argv,
            environment=environment,
            log=self.home.log / "rabbitmq.log",
            ready=port_speaks(self.broker.ports.amqp, AMQP_GREETING, AMQP_METHOD_FRAME),
            grace=60.0,
            status_url=f"{self.broker.management_url}/api/overview",
            order=BROKER,
        )

    def store_program(self) -> ProcessSpec:
        """The store, ready when it answers MongoDB's `hello`."""

        async def store_answers() -> bool:
            return await asyncio.to_thread(answers, self.store.port)

        return ProcessSpec(
            name=embedded_store.NAME,
            argv=self.store.command(),
            environment=os.environ,
            log=self.home.log / "store.log",
            ready=store_answers,
            grace=30.0,
            order=STORE,
        )

    def billing(self) -> ProcessSpec:
        """The settlement consumer and the reaper."""
        return self._ours("billing", ["billing"], BILLING, self._accounts("billing"), grace=30.0)

    def gateway(self) -> ProcessSpec:
        """The gateway with the chat, on the port that clients know."""
        own = {"HEADRACE_HOST": self.settings.host, "HEADRACE_PORT": str(self.settings.port)}
        own["HEADRACE_CONSOLE_URL"] = os.environ.get("HEADRACE_CONSOLE_URL") or self.console_url
        if self.settings.model_aliases:
            own["HEADRACE_MODEL_ALIASES"] = self.settings.model_aliases
        return self._ours("gateway-1", ["gateway", "--id", "gateway-1"], GATEWAY, own | self._accounts("gateway"))

    def worker(self, number: int, *, of: int) -> ProcessSpec:
        """One of `of` workers that share this machine's cores."""
        name = worker_name(number)
        own = {
            "HEADRACE_AMQP_URL": self.broker.amqp_url("worker"),
            "HEADRACE_CONTROL_SECRET": self.control_secret,
            "HEADRACE_MODEL": self.settings.model_or_default,
            "HEADRACE_DEVICE": self.settings.device,
        }
        if "HEADRACE_THREADS" not in os.environ:
            own["HEADRACE_THREADS"] = str(threads_each(of))
        if (memory := kv_cache_each(self.settings.device)) is not None:
            own["HEADRACE_KV_CACHE_MEMORY"] = memory
        spec = self._ours(name, ["worker", "--id", name], WORKER, own)
        return replace(spec, ready=state_is_past_starting(spec.status_url))

    def proxy(self) -> ProcessSpec:
        """The consumer of models that are served from outside."""
        own = {
            "HEADRACE_AMQP_URL": self.broker.amqp_url("worker"),
            "HEADRACE_CONTROL_SECRET": self.control_secret,
            "HEADRACE_PROXY_CONFIG": self.settings.proxy_config,
        }
        return self._ours("proxy-1", ["proxy", "--id", "proxy-1"], WORKER, own)

    def _accounts(self, user: str) -> dict[str, str]:
        return {
            "HEADRACE_AMQP_URL": self.broker.amqp_url(user),
            "HEADRACE_MONGODB_URL": self.store.url,
        }

    def _ours(
        self, name: str, arguments: list[str], order: int, own: Mapping[str, str], *, grace: float = DRAIN_SECONDS
    ) -> ProcessSpec:
        """A `headrace` command. Addresses and passwords go by environment: other users can read argument lists."""
        port = free_port()
        operations = {"HEADRACE_OPS_HOST": "127.0.0.1", "HEADRACE_OPS_PORT": str(port)}
        home = {"HEADRACE_HOME": str(self.home.path), "PYTHONUNBUFFERED": "1"}
        return ProcessSpec(
            name=name,
            argv=[sys.executable, "-m", "infra.cli", *arguments],
            environment={**os.environ, **home, **operations, **own},
            log=self.home.log / f"{name}.log",
            ready=url_says_yes(f"http://127.0.0.1:{port}/healthz"),
            grace=grace + MARGIN_SECONDS,
            status_url=f"http://127.0.0.1:{port}/status",
            order=order,
        )


def kv_cache_each(device: str) -> str | None:
    """KV cache of an engine that shares its machine with all else; `None`: the operator or the engine decides."""
    return None if device != "cpu" or "HEADRACE_KV_CACHE_MEMORY" in os.environ else "1GiB"


def threads_each(workers: int) -> int:
    """CPU threads for each of several engines on a machine that runs everything (docs/adr/0018)."""
    return max(1, len(os.sched_getaffinity(0)) // workers)
