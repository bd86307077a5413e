"""`python -m benchmarks.fairness`: measures what a thousand queued jobs of one client do to another client's TTFT.

The clients are two tenants at one gateway in memory, or two people of one organisation at two gateways over RabbitMQ.
Gateways, clients and one worker, whose engine only counts, share a process. The quiet client sends requests now and
then (Poisson, seeded), in turns alone and beside a noisy client with many queued jobs (each a prompt of a batched
completion request: a thousand connections would measure the client). Writes `fairness.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import httpx

from auth_billing.access.principal import Principal
from benchmarks.cost_of_the_check import InMemory
from benchmarks.measures import milliseconds, percentile
from benchmarks.platform_client import Client, Exchange, Target
from benchmarks.report import print_result
from benchmarks.results import RESULTS, Row, make_result, write
from infra.rabbitmq.definitions import ADMIN
from router.transport.memory import MemoryBroker, MemoryTransport
from router.transport.rabbitmq import RabbitMQTransport
from runtime import lifecycle, logging
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.paying_platform import MODEL, MakeTransport
from tests.rabbitmq_fixtures import make_node

NOISY, QUIET = "hr_live_noisy", "hr_live_quiet"
STEP = 0.1
QUIET_TOKENS = 5
NOISY_TOKENS = (31, 41, 53, 61, 73, 83, 97, 107)
"""Lengths of the noisy client's answers; several, so that they do not all end at once."""
SLOTS = 64
BATCH = 50
"""Number of prompts per noisy request."""
RATE = 6.0
"""Quiet requests per second."""
WARM_UP = 2.0
FILLING = 60.0
"""Most seconds until all of the noisy client's jobs are queued, and until all are cancelled."""


class TwoTenants(InMemory):
    """The platform in memory, for two tenants."""

    callers: ClassVar[Mapping[str, Principal]] = {key: Principal(key, key, key) for key in (NOISY, QUIET)}


class TwoPeople(InMemory):
    """The platform without a store, for two people of one organisation."""

    callers: ClassVar[Mapping[str, Principal]] = {
        key: Principal(key, "organisation", "salt", user=key) for key in (NOISY, QUIET)
    }


@dataclass(frozen=True)
class Setting:
    """Who the clients are, and which gateways each of them uses."""

    clients: str
    platform: type[InMemory]
    transport: str
    gateways: int
    noisy_at: Sequence[int]
    quiet_at: Sequence[int]


SETTINGS = (
    Setting("tenants", TwoTenants, "memory", 1, [0], [0]),
    Setting("people", TwoPeople, "RabbitMQ", 2, [0], [1]),
    Setting("people", TwoPeople, "RabbitMQ", 2, [0, 1], [0, 1]),
)


async def measure(setting: Setting, seconds: float, rounds: int, flood: int) -> list[Row]:
    """Run a platform; measure the quiet client's latencies alone and beside `flood` queued jobs of the noisy client.

    Both are measured in turns, `seconds` in each of `rounds`. Returns a result row for each.
    """
    alone: list[Exchange] = []
    beside: list[Exchange] = []
    held: list[int] = []
    async with AsyncExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        transport = await stack.enter_async_context(_transport(setting, home))
        platform = await stack.enter_async_context(setting.platform(transport, "", home))
        await platform.start(
            gateways=setting.gateways, workers=1, make_engine=lambda: CountingEngine(step_time=STEP, capacity=SLOTS)
        )
        urls = [platform.urls[number] for number in setting.quiet_at]
        await _measure_quiet(urls, WARM_UP)
        for _ in range(rounds):
            alone += await _measure_quiet(urls, seconds)
            async with _flooded(platform, setting, flood) as queued:
                held.append(queued)
                beside += await _measure_quiet(urls, seconds)
    rows = [_row(setting, "alone", 0, alone), _row(setting, "beside the noisy one", min(held), beside)]
    return [{**row, "p99_over_alone": _ratio(row["ttft_p99_ms"], rows[0]["ttft_p99_ms"])} for row in rows]


@asynccontextmanager
async def _transport(setting: Setting, home: Path) -> AsyncIterator[MakeTransport]:
    if setting.transport == "memory":
        yield partial(MemoryTransport, MemoryBroker())
        return
    node = make_node(home / "rabbitmq")
    await asyncio.to_thread(node.start)
    try:
        yield partial(RabbitMQTransport, node.amqp_url(ADMIN))
    finally:
        await asyncio.to_thread(node.kill)


@asynccontextmanager
async def _flooded(platform: InMemory, setting: Setting, flood: int) -> AsyncIterator[int]:
    """Keep `flood` jobs of the noisy client queued or running in the block; provides the number of queued ones."""

    def waiting() -> int:
        return sum(gateway.publish_queue.waiting for gateway in platform.gateways)

    async with httpx.AsyncClient(timeout=600) as http:
        urls = islice(cycle(platform.urls[number] for number in setting.noisy_at), flood // BATCH)
        batches = [
            asyncio.create_task(_flood(http, url, NOISY_TOKENS[number % len(NOISY_TOKENS)]))
            for number, url in enumerate(urls)
        ]
        try:
            async with asyncio.timeout(FILLING):
                while waiting() < flood - 2 * SLOTS:  # noqa: ASYNC110 - there is no event for it
                    await asyncio.sleep(0.1)
            yield waiting()
        finally:
            for batch in batches:
                batch.cancel()
            await asyncio.gather(*batches, return_exceptions=True)
    async with asyncio.timeout(FILLING):
        while waiting() or any(engine.requests for engine in platform.engines):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def _flood(http: httpx.AsyncClient, url: str, tokens: int) -> None:
    """Request batches of answers, one job each, without end."""
    body = {"model": MODEL, "prompt": [[1, 2, 3]] * BATCH, "max_tokens": tokens}
    while True:
        answer = await http.post(f"{url}/completions", json=body, headers={"authorization": f"Bearer {NOISY}"})
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:  # the queue's wait is not measured yet
            await asyncio.sleep(0.5)
        else:
            answer.raise_for_status()


async def _measure_quiet(urls: Sequence[str], seconds: float) -> list[Exchange]:
    """Send the quiet client's requests to the gateways at `urls`, an equal part to each."""

    async def load(url: str, seed: int) -> list[Exchange]:
        client = Client(Target("127.0.0.1", urlsplit(url).port or 0, QUIET, MODEL, QUIET_TOKENS))
        await client.open_connections(8)
        await client.open_loop(RATE / len(urls), seconds, seed=seed)
        client.close()
        return client.exchanges

    return [each for part in await asyncio.gather(*map(load, urls, range(1, 9))) for each in part]


def _row(setting: Setting, how: str, held: int, exchanges: Sequence[Exchange]) -> Row:
    firsts = [each.first - each.due for each in exchanges if each.first is not None]
    return {
        "clients": setting.clients,
        "transport": setting.transport,
        "gateways_noisy_quiet": f"{_numbers(setting.noisy_at)} / {_numbers(setting.quiet_at)}",
        "quiet_requests": how,
        "noisy_jobs_held": held,
        "requests": len(exchanges),
        "without_a_token": len(exchanges) - len(firsts),
        "ttft_p50_ms": milliseconds(percentile(firsts, 50)) if firsts else None,
        "ttft_p99_ms": milliseconds(percentile(firsts, 99)) if firsts else None,
    }


def _numbers(gateways: Sequence[int]) -> str:
    return ", ".join(str(number + 1) for number in gateways)


def _ratio(value: object, base: object) -> float | None:
    return value / base if isinstance(value, float) and isinstance(base, float) else None


async def measure_all(seconds: float, rounds: int, flood: int) -> list[Row]:
    """Measure the quiet client's latencies in every setting (clients, transport, gateways); return the rows of all."""
    return [row for setting in SETTINGS for row in await measure(setting, seconds, rounds, flood)]


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.fairness`: measure all settings, and write `fairness.json`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result file")
    parser.add_argument("--seconds", type=float, default=8.0, help="seconds per load")
    parser.add_argument("--rounds", type=int, default=3, help="number of turns, alone and beside the noisy client")
    parser.add_argument("--flood", type=int, default=1000, help="queued jobs of the noisy client")
    arguments = parser.parse_args(words)
    os.environ["HEADRACE_MAX_WAIT"] = "600"  # a thousand are let in, or there is nothing to be seen
    logging.configure("benchmark", level="error")
    rows: list[Row] = []

    async def measure_rows() -> None:
        rows.extend(await measure_all(arguments.seconds, arguments.rounds, arguments.flood))

    lifecycle.run(measure_rows())  # as the gateway runs: collections do not scan what was imported
    settings = {
        "seconds": arguments.seconds,
        "rounds": arguments.rounds,
        "noisy_jobs": arguments.flood,
        "places": SLOTS,
        "step_ms": 1000 * STEP,
        "quiet_per_s": RATE,
        "quiet_tokens": QUIET_TOKENS,
        "noisy_tokens": sum(NOISY_TOKENS) / len(NOISY_TOKENS),
    }
    result = make_result("fairness", settings, rows)
    print_result(result, write(result, arguments.out))


if __name__ == "__main__":
    main()
