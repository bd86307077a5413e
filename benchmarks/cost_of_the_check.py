"""`python -m benchmarks.cost_of_the_check`: measures the latency that authentication, rate limits and holds add.

Two gateways, each with a worker whose engine only counts, are loaded in turns, so that other load on the machine
affects both alike: one on the embedded store, with authentication, rate limits and holds; one that keeps all of that in
memory, for a static key. Everything but the store runs in one process, the broker too. Writes `cost-of-the-check.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import ClassVar

import httpx

from auth_billing.access.principal import Principal
from auth_billing.authenticator import Authenticator
from auth_billing.errors import InvalidApiKey
from auth_billing.idempotency import IdempotencyKeys
from benchmarks.measures import percentile
from benchmarks.report import print_result
from benchmarks.results import RESULTS, ROOT, Row, make_result, write
from gateway.app import GatewayServices
from gateway.settings import GatewaySettings
from infra.accounts.embedded_store import PROGRAM
from infra.launcher.readiness import free_port
from router.bus import Bus
from router.transport.memory import MemoryBroker, MemoryTransport
from runtime import logging
from tests.child_process import StoreProcess
from tests.fakes.accounts import DictApiKeyStore, DictIdempotencyStore
from tests.fakes.administration import DictOrganisation
from tests.fakes.billing import FakeBilling
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.paying_platform import MODEL, PayingPlatform
from tests.fakes.rate_buckets import rate_limiter
from tests.fakes.stored_objects import object_services

SECONDS = 8.0
"""Seconds per load."""
LOADS = {"one at a time": (1, 0.25), "8 without a pause": (8, 0.0)}
"""Number of clients, and seconds between their requests: the pause lets the request before be settled."""
WARM_UP = 20
TOKENS = 1
STEP = 0.0005
STATIC_KEY = "hr_live_static"
PROGRAM_PATH = ROOT / ".headrace" / PROGRAM
NAMES = ("store", "in memory")


class StaticKeys(Authenticator):
    """Authentication by comparison with static keys; `callers` has the principal of each key."""

    def __init__(self, callers: Mapping[str, Principal]) -> None:
        super().__init__(DictApiKeyStore(), b"p" * 32)
        self._callers = callers

    async def authenticate(self, token: str) -> Principal:
        """Return the principal of a static API key: authentication without a store, for the compared gateway.

        Raises:
            InvalidApiKey: `token` is no such key.
        """
        if (caller := self._callers.get(token)) is None:
            raise InvalidApiKey("unknown")
        return caller


class InMemory(PayingPlatform):
    """The platform without a store: static keys, limits and holds in dictionaries, no settlement."""

    callers: ClassVar[Mapping[str, Principal]] = {STATIC_KEY: Principal("key", "tenant", "salt")}

    async def __aenter__(self) -> InMemory:
        return self

    def _services(self, bus: Bus, settings: GatewaySettings) -> GatewayServices:
        return GatewayServices(
            bus,
            StaticKeys(self.callers),
            FakeBilling(),
            IdempotencyKeys(DictIdempotencyStore()),
            DictOrganisation().administration,
            rate_limiter(settings.default_limits),
            *object_services(),
        )

    async def _give_key(self) -> str:
        return STATIC_KEY


async def measure(seconds: float) -> list[Row]:
    """Run each load on a gateway with a billing store and on one without, for `seconds` each, in turns.

    Returns one result row per load and gateway.
    """
    async with AsyncExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = StoreProcess(home / "store", free_port(), program=PROGRAM_PATH)
        await asyncio.to_thread(store.start)
        stack.callback(store.stop)
        keys: dict[str, str] = {}
        for kind in (PayingPlatform, InMemory):
            broker = MemoryBroker()
            platform = kind(partial(MemoryTransport, broker), store.url, home)
            await stack.enter_async_context(platform)
            await platform.start(gateways=1, workers=1, make_engine=lambda: CountingEngine(step_time=STEP))
            keys[platform.urls[0]] = platform.key
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=60))
        return [row for load in LOADS for row in await _rows(http, keys, load, seconds)]


async def _rows(http: httpx.AsyncClient, keys: dict[str, str], load: str, seconds: float) -> list[Row]:
    (clients, pause), times = LOADS[load], {url: list[float]() for url in keys}

    async def ask(url: str) -> float:
        began = time.perf_counter()
        body = {"model": MODEL, "prompt": [1, 2, 3], "max_tokens": TOKENS}
        answer = await http.post(f"{url}/completions", json=body, headers={"authorization": f"Bearer {keys[url]}"})
        answer.raise_for_status()
        return time.perf_counter() - began

    for _ in range(WARM_UP):
        for url in keys:
            await ask(url)
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for url in keys:
            times[url] += await asyncio.gather(*(ask(url) for _ in range(clients)))
            await asyncio.sleep(pause)
    base = percentile(times[list(keys)[1]], 50) or 0.0
    return [
        {
            "load": load,
            "checked_by": name,
            "requests": len(times[url]),
            "p50_ms": 1000 * (percentile(times[url], 50) or 0.0),
            "p99_ms": 1000 * (percentile(times[url], 99) or 0.0),
            "p50_added_ms": 1000 * ((percentile(times[url], 50) or 0.0) - base) if name == NAMES[0] else None,
        }
        for name, url in zip(NAMES, keys, strict=True)
    ]


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.cost_of_the_check`: measure both gateways, and write `cost-of-the-check.json`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost_of_the_check", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result file")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="seconds per load")
    arguments = parser.parse_args(words)
    logging.configure("benchmark", level="error")
    rows = asyncio.run(measure(arguments.seconds))
    settings = {"tokens": TOKENS, "seconds": arguments.seconds, "step_ms": 1000 * STEP, "transport": "memory"}
    result = make_result("cost-of-the-check", settings, rows)
    print_result(result, write(result, arguments.out))


if __name__ == "__main__":
    main()
