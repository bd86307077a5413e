"""Defines the processes that `headrace up` starts: programs, settings, start order and readiness checks.

The same programs as in production (`headrace gateway`, `headrace worker`, ...) with local addresses.
`infra/launcher/supervisor.py` runs them.
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
from infra.launcher.readiness import free_port, port_answers, status_is_started, url_is_ok
from infra.launcher.supervisor import ProcessSpec
from infra.rabbitmq import definitions
from infra.rabbitmq.node import NodePorts, RabbitMQNode
from router.control_signing import SECRET_FILE_NAME as CONTROL_SECRET
from router.timings import DEFAULT_TIMINGS

BROKER, STORE, BILLING, GATEWAY, WORKER = range(5)
"""Start order; processes are stopped in reverse, each before the processes that it depends on."""

AMQP_GREETING = b"AMQP\x00\x00\x09\x01"
AMQP_METHOD_FRAME = b"\x01"


def worker_name(number: int) -> str:
    """Return the process name of worker `number`: `worker-1`, `worker-2`, ..."""
    return f"worker-{number}"


@dataclass(frozen=True)
class PlatformProcesses:
    """Builds the specs (program, environment, readiness check) of one platform's processes."""

    settings: LauncherSettings
    home: Home

    @cached_property
    def broker(self) -> RabbitMQNode:
        """Private RabbitMQ node of the platform, with its ports and passwords; the supervisor starts its process."""
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
        """URL of the queues page in the management console of the private RabbitMQ."""
        return f"{self.broker.management_url}/#/queues"

    @cached_property
    def control_secret(self) -> str:
        """Secret that signs control messages; also written to a file, for workers that are started by hand."""
        secret = os.environ.get("HEADRACE_CONTROL_SECRET") or control_secret(
            load_pepper(self.home.path, os.environ.get("HEADRACE_API_KEY_PEPPER", ""))
        )
        write_secret(self.home.secrets / CONTROL_SECRET, secret + "\n")
        return secret

    @cached_property
    def store(self) -> EmbeddedStore:
        """Embedded MongoDB-compatible store in the platform's home, on a free port.

        The supervisor starts its process.
        """
        return EmbeddedStore(self.home.path, port=free_port())

    def rabbitmq(self) -> ProcessSpec:
        """Return the spec of the RabbitMQ process, ready when it answers a protocol header."""
        argv, environment = self.broker.command()
        return ProcessSpec(
            name="rabbitmq",
            argv=argv,
            environment=environment,
            log=self.home.log / "rabbitmq.log",
            ready=port_answers(self.broker.ports.amqp, AMQP_GREETING, AMQP_METHOD_FRAME),
            grace=60.0,
            status_url=f"{self.broker.management_url}/api/overview",
            order=BROKER,
        )

    def store_program(self) -> ProcessSpec:
        """Return the spec of the embedded store's process, ready when it answers MongoDB's `hello`."""

        async def store_answers() -> bool:
            return await asyncio.to_thread(answers, self.store.port)

        argv, environment = self.store.command()
        return ProcessSpec(
            name=embedded_store.NAME,
            argv=argv,
            environment=environment,
            log=self.home.log / "store.log",
            ready=store_answers,
            grace=30.0,
            order=STORE,
        )

    def billing(self) -> ProcessSpec:
        """Return the spec (program, environment, readiness check) of the billing process."""
        return self._ours("billing", ["billing"], BILLING, self._accounts("billing"), grace=30.0)

    def gateway(self) -> ProcessSpec:
        """Return the spec of the gateway process, which serves API and chat on the public port."""
        own = {"HEADRACE_HOST": self.settings.host, "HEADRACE_PORT": str(self.settings.port)}
        own["HEADRACE_CONSOLE_URL"] = os.environ.get("HEADRACE_CONSOLE_URL") or self.console_url
        if self.settings.model_aliases:
            own["HEADRACE_MODEL_ALIASES"] = self.settings.model_aliases
        return self._ours("gateway-1", ["gateway", "--id", "gateway-1"], GATEWAY, own | self._accounts("gateway"))

    def worker(self, number: int, *, of: int) -> ProcessSpec:
        """Return the spec of worker process `number`, one of `of` workers that share this machine's cores."""
        name = worker_name(number)
        own = {
            "HEADRACE_AMQP_URL": self.broker.amqp_url("searcher" if self.settings.search else "worker"),
            "HEADRACE_CONTROL_SECRET": self.control_secret,
            "HEADRACE_MODEL": self.settings.model_or_default,
            "HEADRACE_DEVICE": self.settings.device,
            "HEADRACE_SEARCH": str(self.settings.search).lower(),
        }
        if "HEADRACE_THREADS" not in os.environ:
            own["HEADRACE_THREADS"] = str(threads_per_worker(of))
        if (memory := kv_cache_per_worker(self.settings.device)) is not None:
            own["HEADRACE_KV_CACHE_MEMORY"] = memory
        spec = self._ours(name, ["worker", "--id", name], WORKER, own)
        return replace(spec, ready=status_is_started(spec.status_url))

    def proxy(self) -> ProcessSpec:
        """Return the spec of the proxy process, for models of upstream providers."""
        own = {
            "HEADRACE_AMQP_URL": self.broker.amqp_url("proxy"),
            "HEADRACE_CONTROL_SECRET": self.control_secret,
            "HEADRACE_PROXY_CONFIG": self.settings.proxy_config,
        }
        return self._ours("proxy-1", ["proxy", "--id", "proxy-1"], WORKER, own)

    def assistant(self) -> ProcessSpec:
        """Return the spec of the assistant process, which answers with tools and the served model."""
        own = {
            **self._accounts("assistant"),
            "HEADRACE_CONTROL_SECRET": self.control_secret,
        }
        return self._ours("assistant-1", ["assistant", "--id", "assistant-1"], WORKER, own)

    def _accounts(self, user: str) -> dict[str, str]:
        return {
            "HEADRACE_AMQP_URL": self.broker.amqp_url(user),
            "HEADRACE_MONGODB_URL": self.store.url,
        }

    def _ours(
        self,
        name: str,
        arguments: list[str],
        order: int,
        own: Mapping[str, str],
        *,
        grace: float = DEFAULT_TIMINGS.drain_grace,
    ) -> ProcessSpec:
        """Return the spec of a `headrace` command. Passwords go by environment: other users can read argument lists."""
        port = free_port()
        operations = {"HEADRACE_OPS_HOST": "127.0.0.1", "HEADRACE_OPS_PORT": str(port)}
        home = {"HEADRACE_HOME": str(self.home.path), "PYTHONUNBUFFERED": "1"}
        return ProcessSpec(
            name=name,
            argv=[sys.executable, "-m", "infra.cli", *arguments],
            environment={**os.environ, **home, **operations, **own},
            log=self.home.log / f"{name}.log",
            ready=url_is_ok(f"http://127.0.0.1:{port}/healthz"),
            grace=grace + DEFAULT_TIMINGS.stop_margin,
            status_url=f"http://127.0.0.1:{port}/status",
            order=order,
        )


def kv_cache_per_worker(device: str) -> str | None:
    """Return the KV cache size that the launcher sets for each CPU worker, as a setting's text.

    `None` on a GPU, or if the operator has set a size.
    """
    return None if device != "cpu" or "HEADRACE_KV_CACHE_MEMORY" in os.environ else "1GiB"


def threads_per_worker(workers: int) -> int:
    """Return the number of CPU threads for each of `workers` engines: equal shares of the cores of this process."""
    return max(1, len(os.sched_getaffinity(0)) // workers)
