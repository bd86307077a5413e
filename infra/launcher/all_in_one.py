"""Launcher `headrace serve`: runs gateway, chat, billing and one worker in one process, on the in-memory broker.

The same code as on the platform, with other transports; only the engine and the store are separate processes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import psutil
from prometheus_client import CollectorRegistry

from auth_billing.__main__ import consume, prepare_store
from auth_billing.housekeeping import Housekeeping
from auth_billing.metrics import BillingMetrics
from auth_billing.settings import BillingSettings
from auth_billing.store.connection import StoreConnection
from gateway.http.server import serve_app
from gateway.settings import GatewaySettings
from inference_worker.__main__ import serve as serve_worker
from inference_worker.settings import WorkerSettings
from infra.accounts import account_services, sign_in_services
from infra.home import environment
from infra.home.home import Home, LockHolder, lock_home
from infra.home.process_records import ProcessRecord, ProcessRecords, ProcessState, stop_orphans
from infra.home.settings import LauncherSettings
from infra.launcher.banner import print_serve_banner
from infra.launcher.processes import PlatformProcesses, kv_cache_per_worker, threads_per_worker
from infra.launcher.readiness import free_port, is_free, url_is_ok
from infra.launcher.supervisor import Supervisor
from infra.web_app.app import create_web_app
from proxy.server import serve as serve_proxy
from proxy.settings import ProxySettings
from router.bus import Bus
from router.messages import WorkerState
from router.transport.memory import MemoryBroker, MemoryTransport
from runtime import logging
from runtime.lifecycle import StartupError, stop_on_signals
from stored_objects.settings import BlobSettings

PrintLine = Callable[[str], None]

PROGRESS_INTERVAL = 5.0
"""Seconds between two lines about a start that is not finished."""
ORPHAN_GRACE = 5.0
"""Seconds that processes of a launcher that died may take to end."""
STREAM_GRACE = 5.0
"""Seconds that running streams may take at Ctrl-C, before the terminal is free again."""


@dataclass(frozen=True)
class Component:
    """A task of the process with its own stop event, so that tasks are stopped in order."""

    task: asyncio.Task[None]
    stop: asyncio.Event

    async def end(self) -> None:
        """Set the component's stop event and wait until its task has ended; an exception stays in `task`, unraised."""
        self.stop.set()
        await asyncio.wait({self.task})


class AllInOne:
    """Launcher that runs gateway, chat, billing and one worker in this process (`headrace serve`)."""

    def __init__(self, settings: LauncherSettings, print_line: PrintLine) -> None:
        self._settings = settings
        self._home: Home = settings.folder
        self._print_line = print_line
        self._records = ProcessRecords(self._home.run)
        self._supervisor = Supervisor(self._records, print_line)
        self._processes = PlatformProcesses(settings, self._home)
        self._broker = MemoryBroker()
        self._ops_port = free_port()
        self._stop = asyncio.Event()
        self._components: list[Component] = []
        self._importing: asyncio.Task[object] | None = None

    async def run(self) -> None:
        """Run gateway, chat, billing, worker and store until SIGTERM or Ctrl-C, then stop them.

        Raises:
            HomeLocked: a launcher runs in this home already.
            StartupError: a component can't start.
        """
        self._home.prepare()
        stop_on_signals(self._stop, again=self._stop_now)
        with lock_home(self._home, LockHolder("serve", os.getpid(), self._settings.url)):
            await asyncio.to_thread(stop_orphans, self._records, grace=ORPHAN_GRACE)
            if not is_free(self._settings.host, self._settings.port):
                raise StartupError(f"port {self._settings.port} is taken: choose another by HEADRACE_PORT")
            try:
                await self._serve()
            finally:
                await self._stop_components()
                await self._supervisor.stop_all()
                self._records.remove("serve")

    async def _serve(self) -> None:
        store = self._supervisor.add(self._processes.store_program())
        if await store.settled() is not ProcessState.READY:
            raise StartupError(f"the store can't start: {store.reason}")
        async with AsyncExitStack() as opened:
            access = await opened.enter_async_context(account_services.opened(self._home, self._processes.store.url))
            await prepare_store(access.connection)
            housekeeping = Housekeeping(environment.load(BillingSettings), access.connection)
            await housekeeping.prepare()
            bus = Bus(MemoryTransport(self._broker, "gateway-1"))
            await bus.start()
            opened.push_async_callback(bus.close)
            self._add(lambda stop: self._billing(access.connection, housekeeping, stop))
            self._write_record()
            worker = self._add(self._worker)
            if self._settings.assistant:  # seconds of imports, while the engine's process loads the model
                self._importing = asyncio.create_task(asyncio.to_thread(import_module, "assistant.server"))
            served = await self._wait_for_model(bus, worker)
            if served is not None and self._settings.proxy_config:
                self._add(self._proxy)
            if served is not None and self._settings.assistant:
                self._add(lambda stop: self._assistant(access.connection, stop))
            if served is not None:
                # The API starts last, so that requests are accepted only once they can be answered.
                key = await access.write_development_key(f"{self._settings.url}/v1")
                settings = self._gateway_settings()
                app = create_web_app(access, bus, settings)
                await self._wait_for_gateway(self._add(lambda stop: serve_app(app, settings, stop)))
                if not self._is_stopping():
                    token = await sign_in_services.first_owner_token(access)
                    print_serve_banner(self._settings.url, key, served, home=str(self._home.path), token=token)
            await self._wait_until_stopping()
            await self._stop_components()

    def _add(self, serve: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> Component:
        stop = asyncio.Event()
        component = Component(asyncio.create_task(serve(stop)), stop)
        self._components.append(component)
        return component

    def _gateway_settings(self) -> GatewaySettings:
        return environment.load(
            GatewaySettings,
            host=self._settings.host,
            port=self._settings.port,
            model_aliases=self._settings.model_aliases,
            shutdown_grace=STREAM_GRACE,
        )

    def _worker_settings(self) -> WorkerSettings:
        return environment.load(
            WorkerSettings,
            model=self._settings.model_or_default,
            device=self._settings.device,
            search=self._settings.search,
            ops_port=self._ops_port,
            kv_cache_memory=kv_cache_per_worker(self._settings.device),
            threads=None if environment.variable("threads") in os.environ else threads_per_worker(1),
        )

    async def _worker(self, stop: asyncio.Event) -> None:
        settings = self._worker_settings()
        # The gateway has ended its streams before the worker is stopped: there is nothing to drain.
        transports = [MemoryTransport(self._broker, each.id) for each in settings.models()]
        await serve_worker(settings, stop, transports=transports, hand_over=stop)

    async def _proxy(self, stop: asyncio.Event) -> None:
        settings = environment.load(ProxySettings, proxy_config=self._settings.proxy_config)
        await serve_proxy(settings, stop, transport=MemoryTransport(self._broker, settings.proxy_id), hand_over=stop)

    async def _assistant(self, connection: StoreConnection, stop: asyncio.Event) -> None:
        if self._importing is not None:
            await self._importing
        from assistant.server import image_services  # noqa: PLC0415 - an installation without assistant needs no memory
        from assistant.server import serve as serve_assistant  # noqa: PLC0415
        from assistant.settings import AssistantSettings  # noqa: PLC0415

        settings = environment.load(AssistantSettings)
        transport = MemoryTransport(self._broker, settings.assistant_id)
        images = image_services(environment.load(BlobSettings), connection, self._home.path)
        try:
            await serve_assistant(settings, stop, transport=transport, hand_over=stop, images=images)
        finally:
            images.objects.close()

    async def _billing(self, connection: StoreConnection, housekeeping: Housekeeping, stop: asyncio.Event) -> None:
        bus = Bus(MemoryTransport(self._broker, "billing"))
        await bus.start()
        try:
            await consume(bus, connection, housekeeping, BillingMetrics(CollectorRegistry()), stop)
        finally:
            await bus.close()

    async def _wait_for_model(self, bus: Bus, worker: Component) -> str | None:
        """Return the model's name once the worker serves it; `None` if a component stopped or failed before."""
        heartbeat = asyncio.create_task(_first_heartbeat(bus, self._worker_settings().id))
        began = reported = time.monotonic()
        while not heartbeat.done() and not self._is_stopping():
            await asyncio.wait({heartbeat, worker.task}, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
            if time.monotonic() - reported >= PROGRESS_INTERVAL:
                reported = time.monotonic()
                self._print_line(f"loading the model ... {reported - began:.0f} s")
        if heartbeat.done():
            return heartbeat.result()
        heartbeat.cancel()
        return None

    async def _wait_for_gateway(self, gateway: Component) -> None:
        """Wait until the gateway is ready, or any component has ended."""
        ready = url_is_ok(f"{self._settings.url}/readyz")
        while not self._is_stopping() and not await ready():
            await asyncio.wait({gateway.task}, timeout=0.1)

    def _is_stopping(self) -> bool:
        return self._stop.is_set() or any(component.task.done() for component in self._components)

    async def _wait_until_stopping(self) -> None:
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait(
            {stopping, *(component.task for component in self._components)}, return_when=asyncio.FIRST_COMPLETED
        )
        stopping.cancel()

    async def _stop_components(self) -> None:
        """Stop the components in reverse start order (gateway, worker, billing), and raise the first error."""
        components, self._components = self._components[::-1], []
        for component in components:
            await component.end()
        for component in components:
            if not component.task.cancelled() and (error := component.task.exception()) is not None:
                raise error

    def _stop_now(self) -> None:
        for component in self._components:
            component.stop.set()
        if self._components:
            self._components[-1].task.cancel()
        self._supervisor.stop_now()

    def _write_record(self) -> None:
        self._records.write(
            ProcessRecord(
                name="serve",
                state=ProcessState.READY,
                pid=os.getpid(),
                created=psutil.Process().create_time(),
                since=time.time(),
                status_url=f"http://127.0.0.1:{self._ops_port}/status",
                order=len(self._supervisor.names()),
            )
        )


async def _first_heartbeat(bus: Bus, worker: str) -> str:
    """Return the model in the first heartbeat that the worker with the id `worker` sends once it has loaded it."""
    statuses = await bus.statuses()
    try:
        ready = (each async for each in statuses if each.worker == worker and each.state is not WorkerState.STARTING)
        return (await anext(ready)).model
    finally:
        await statuses.close()


async def serve_all_in_one(settings: LauncherSettings, print_line: PrintLine) -> None:
    """Run `headrace serve` in this process: configure logging, then run `AllInOne` until SIGTERM or Ctrl-C.

    Raises:
        HomeLocked: a launcher runs in this home already.
        StartupError: a component can't start.
    """
    # The terminal is for the banner: requests are logged only if a log level is set.
    level = settings.log_level if "log_level" in settings.model_fields_set else "warning"
    logging.configure("serve", style=settings.log_style, level=level)
    print_line("starting (loading the model from disk takes some seconds) ...")
    await AllInOne(settings, print_line).run()
