"""Runs the tests of a client library in a process of its own against a gateway, through the proxy."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import uvicorn

from infra.launcher.readiness import free_port
from router.bus import Bus
from router.transport.memory import MemoryTransport
from tests.fakes.scripted_worker import Script, ScriptedWorker, draw, embed, status
from tests.gateway.conftest import HEADERS, MODEL, QUICK, Served, answers, eventually, served
from tests.suites.objects import EMBEDDER, PAINTER, Objects
from tests.suites.proxy import RECORDER, Preparation, SuiteProxy
from tests.suites.record import TestRecord
from tests.suites.suite import Environment, Suite

PATIENT = replace(QUICK, worker_alive_timeout=3600.0)
"""Scripted workers send one heartbeat."""
PLUGIN = Path(__file__).parent / "plugin"


@asynccontextmanager
async def platform(script: Script) -> AsyncIterator[Served]:
    """Serve a gateway with a model that generates and tokenises by `script`, an embedder and a model that draws.

    Inputs are moderated by rules.
    """
    async with AsyncExitStack() as stack:
        rules = Path(stack.enter_context(TemporaryDirectory())) / "rules.toml"
        rules.write_text('[categories.violence]\nwords = ["violence"]\n')
        settings: dict[str, Any] = {"shutdown_grace": 0.0, "timings": PATIENT, "moderation_rules": str(rules)}
        server = await stack.enter_async_context(served(script, **settings))
        broker, models = server.stage.broker, server.stage.gateway.models
        buses = [Bus(MemoryTransport(broker, name)) for name in ("embedder", "painter")]
        workers = [
            ScriptedWorker(buses[0], EMBEDDER, embed, "worker-2", dimensions=4),
            ScriptedWorker(buses[1], PAINTER, draw, "worker-3", image_sizes=["1024x1024"]),
        ]
        for worker in workers:
            await worker.bus.start()
            stack.push_async_callback(worker.bus.close)
            await stack.enter_async_context(worker.running())
        server.stage.worker.bus.send_status(status(MODEL, tokenises=True))
        await eventually(lambda: all(models.find(each) is not None for each in (EMBEDDER, PAINTER)))
        await eventually(lambda: any(each is not None and each.tokenises for each in [models.find(MODEL)]))
        yield server


@asynccontextmanager
async def proxied(server: Served, preparations: Mapping[str, Preparation]) -> AsyncIterator[tuple[SuiteProxy, str]]:
    """Serve the proxy on a port; return it and its origin."""
    client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", headers=HEADERS, timeout=600)
    async with client:
        proxy = SuiteProxy(client, Objects(client), preparations)
        port = free_port()
        serving = uvicorn.Server(uvicorn.Config(proxy.app, port=port, log_level="warning"))
        task = asyncio.create_task(serving.serve())
        await eventually(lambda: task.done() or answers(port))
        yield proxy, f"http://127.0.0.1:{port}"
        serving.should_exit = True
        await task


async def run(suite: Suite, environment: Environment) -> list[TestRecord]:
    """Run the suite; return what each test did, in order.

    Raises:
        AssertionError: The tests could not be run; the message is pytest's.
    """
    async with platform(suite.script) as server, proxied(server, suite.preparations) as (proxy, origin):
        options = ["-p", "suite_recorder", "-p", "no:cacheprovider", "-o", "addopts=", "-q"]
        process = await asyncio.create_subprocess_exec(
            *[environment.python, "-m", "pytest", *options, *suite.files],
            cwd=environment.folder,
            env=_variables(origin, suite.base),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
    records = [each for each in proxy.recorder.tests.values() if each.outcome]
    if process.returncode not in (0, 1) or not records:
        raise AssertionError(output.decode()[-3000:])
    return records


def _variables(origin: str, base: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "OPENAI_"))}
    return own | {
        "PYTHONPATH": str(PLUGIN),
        "SUITE_RECORDER": origin + RECORDER,
        "TEST_API_BASE_URL": origin + base,
        "OPENAI_BASE_URL": f"{origin}/v1",
        "OPENAI_API_KEY": "replaced by the proxy",
        "MODEL": MODEL,
    }
