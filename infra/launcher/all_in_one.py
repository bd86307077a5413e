"""`headrace serve`: gateway, chat, billing and one worker in one process, on the in-memory transport.

The same code as on the platform, with other transports; only the engine and the store are separate processes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
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
from infra.accounts import account_access, people_access
from infra.front_door.front_door import open_front_door
from infra.home import environment
from infra.home.home import Holder, Home, held
from infra.home.process_records import ProcessRecord, ProcessRecords, ProcessState, end_orphans
from infra.home.settings import LauncherSettings
from infra.launcher.banner import base_url, greet_serve
from infra.launcher.processes import PlatformProcesses, kv_cache_each, threads_each
from infra.launcher.readiness import free_port, is_free, url_says_yes
from infra.launcher.supervisor import Supervisor
from proxy.server import serve as serve_proxy
from proxy.settings import ProxySettings
from router.bus import Bus
from router.transport.memory import MemoryBroker, MemoryTransport
from runtime import logging
from runtime.lifecycle import StartupError, stop_on_signals

Say = Callable[[str], None]

PROGRESS_SECONDS = 5.0
ORPHAN_GRACE_SECONDS = 5.0
STREAM_GRACE_SECONDS = 5.0
"""Seconds that running streams may take at Ctrl-C, before the terminal is free again."""


@dataclass(frozen=True)
class Part:
    """A task of the process with its own stop event, so that tasks are stopped in order."""

    task: asyncio.Task[None]
    stop: asyncio.Event

    async def end(self) -> None:
        """Stop the task and wait for its end, ignoring its errors."""
        self.stop.set()
        await asyncio.wait({self.task})


class AllInOne:
    """Launcher of an installation in one process."""

    def __init__(self, settings: LauncherSettings, say: Say) -> None:
        self._settings = settings
        self._home: Home = settings.folder
        self._say = say
        self._records = ProcessRecords(self._home.run)
        self._supervisor = Supervisor(self._records, say)
        self._processes = PlatformProcesses(settings, self._home)
        self._broker = MemoryBroker()
        self._ops_port = free_port()
        self._stop = asyncio.Event()
        self._parts: list[Part] = []

    async def run(self) -> None:
        """Serve until SIGTERM or Ctrl-C.

        Raises:
            HomeBusy: a launcher runs in this home already.
            StartupError: a component can't start.
        """
        self._home.prepare()
        stop_on_signals(self._stop, again=self._hurry)
        with held(self._home, Holder("serve", os.getpid(), self._url)):
            await asyncio.to_thread(end_orphans, self._records, grace=ORPHAN_GRACE_SECONDS)
            if not is_free(self._settings.host, self._settings.port):
                raise StartupError(f"port {self._settings.port} is taken: choose another by HEADRACE_PORT")
            try:
                await self._serve()
            finally:
                await self._end_parts()
                await self._supervisor.stop_all()
                self._records.remove("serve")

    @property
    def _url(self) -> str:
        return base_url(self._settings.host, self._settings.port)

    async def _serve(self) -> None:
        store = self._supervisor.add(self._processes.store_program())
        if await store.settled() is not ProcessState.READY:
            raise StartupError(f"the store can't start: {store.reason}")
        async with AsyncExitStack() as opened:
            access = await opened.enter_async_context(account_access.opened(self._home, self._processes.store.url))
            await prepare_store(access.connection)
            housekeeping = Housekeeping(environment.load(BillingSettings), access.connection)
            await housekeeping.prepare()
            bus = Bus(MemoryTransport(self._broker, "gateway-1"))
            await bus.start()
            opened.push_async_callback(bus.close)
            self._add(lambda stop: self._billing(access.connection, housekeeping, stop))
            self._write_record()
            served = await self._loaded(bus, self._add(self._worker))
            if served is not None and self._settings.proxy_config:
                self._add(self._proxy)
            if served is not None:
                # The API starts last, so that requests are accepted only once they can be answered.
                key = await access.give_development_key(f"{self._url}/v1")
                settings = self._gateway_settings()
                app = open_front_door(access, bus, settings)
                await self._listening(self._add(lambda stop: serve_app(app, settings, stop)))
                if not self._over():
                    token = await people_access.first_owner_token(access)
                    greet_serve(self._url, key, served, home=str(self._home.path), token=token)
            await self._until_over()
            await self._end_parts()

    def _add(self, serve: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> Part:
        stop = asyncio.Event()
        part = Part(asyncio.create_task(serve(stop)), stop)
        self._parts.append(part)
        return part

    def _gateway_settings(self) -> GatewaySettings:
        return environment.load(
            GatewaySettings,
            host=self._settings.host,
            port=self._settings.port,
            model_aliases=self._settings.model_aliases,
            shutdown_grace=STREAM_GRACE_SECONDS,
        )

    async def _worker(self, stop: asyncio.Event) -> None:
        settings = environment.load(
            WorkerSettings,
            model=self._settings.model_or_default,
            device=self._settings.device,
            ops_port=self._ops_port,
            kv_cache_memory=kv_cache_each(self._settings.device),
            threads=None if environment.variable("threads") in os.environ else threads_each(1),
        )
        # The gateway has ended its streams before the worker is stopped: there is nothing to drain.
        await serve_worker(settings, stop, transport=MemoryTransport(self._broker, settings.id), hand_over=stop)

    async def _proxy(self, stop: asyncio.Event) -> None:
        settings = environment.load(ProxySettings, proxy_config=self._settings.proxy_config)
        await serve_proxy(settings, stop, transport=MemoryTransport(self._broker, settings.proxy_id), hand_over=stop)

    async def _billing(self, connection: StoreConnection, housekeeping: Housekeeping, stop: asyncio.Event) -> None:
        bus = Bus(MemoryTransport(self._broker, "billing"))
        await bus.start()
        try:
            await consume(bus, connection, housekeeping, BillingMetrics(CollectorRegistry()), stop)
        finally:
            await bus.close()

    async def _loaded(self, bus: Bus, worker: Part) -> str | None:
        """Return the model's name once the worker serves it; `None` if a component stopped or failed before."""
        heartbeat = asyncio.create_task(_first_heartbeat(bus))
        began = said = time.monotonic()
        while not heartbeat.done() and not self._over():
            await asyncio.wait({heartbeat, worker.task}, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
            if time.monotonic() - said >= PROGRESS_SECONDS:
                said = time.monotonic()
                self._say(f"loading the model ... {said - began:.0f} s")
        if heartbeat.done():
            return heartbeat.result()
        heartbeat.cancel()
        return None

    async def _listening(self, gateway: Part) -> None:
        """Wait until the gateway is ready, or any component has ended."""
        ready = url_says_yes(f"{self._url}/readyz")
        while not self._over() and not await ready():
            await asyncio.wait({gateway.task}, timeout=0.1)

    def _over(self) -> bool:
        return self._stop.is_set() or any(part.task.done() for part in self._parts)

    async def _until_over(self) -> None:
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({stopping, *(part.task for part in self._parts)}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()

    async def _end_parts(self) -> None:
        """Stop the components in reverse start order (gateway, worker, billing), and raise the first error."""
        parts, self._parts = self._parts[::-1], []
        for part in parts:
            await part.end()
        for part in parts:
            if not part.task.cancelled() and (error := part.task.exception()) is not None:
                raise error

    def _hurry(self) -> None:
        for part in self._parts:
            part.stop.set()
        if self._parts:
            self._parts[-1].task.cancel()
        self._supervisor.hurry()

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


async def _first_heartbeat(bus: Bus) -> str:
    """Return the model in the first heartbeat."""
    statuses = await bus.statuses()
    try:
        return (await anext(aiter(statuses))).model
    finally:
        await statuses.close()


async def serve_all_in_one(settings: LauncherSettings, say: Say) -> None:
    """Run an installation in this process until a stop signal; see `AllInOne.run`."""
    # The terminal is for the banner: requests are logged only if a log level is set.
    level = settings.log_level if "log_level" in settings.model_fields_set else "warning"
    logging.configure("serve", style=settings.log_style, level=level)
    say("starting (the model is loaded from disk, some seconds) ...")
    await AllInOne(settings, say).run()
