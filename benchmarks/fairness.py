"""`python -m benchmarks.fairness`: the effect of a tenant with a thousand queued jobs on a quiet tenant's TTFT.

One gateway and one worker, whose engine only counts, in one process with their broker and both clients. The quiet
tenant sends requests now and then (Poisson, seeded), first alone, then beside a noisy tenant with many queued jobs
(each a prompt of a batched completion request: a thousand connections would measure the client). Writes
`fairness.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from benchmarks.cost_of_the_check import InMemory
from benchmarks.measures import milliseconds, percentile
from benchmarks.platform_client import Client, Exchange, Target
from benchmarks.report import print_result
from benchmarks.results import RESULTS, Row, make_result, write
from router.transport.memory import MemoryBroker, MemoryTransport
from runtime import logging
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.paying_platform import MODEL

KEYS = {"hr_live_noisy": "noisy", "hr_live_quiet": "quiet"}
NOISY, QUIET = KEYS
STEP = 0.1
QUIET_TOKENS = 5
NOISY_TOKENS = (31, 41, 53, 61, 73, 83, 97, 107)
"""Lengths of the noisy tenant's answers; several, so that they do not all end at once."""
SLOTS = 64
BATCH = 50
"""Number of prompts per noisy request."""
RATE = 6.0
"""Quiet requests per second."""
WARM_UP = 2.0
FILLING = 30.0
"""Most seconds until all of the noisy tenant's jobs are queued."""


class TwoTenants(InMemory):
    """The platform in memory, for two tenants."""

    tenants = KEYS


async def measure(seconds: float, flood: int) -> list[Row]:
    """Run the platform; return a row of the quiet tenant's latencies alone, and one beside `flood` jobs of another."""
    async with AsyncExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        platform = TwoTenants(partial(MemoryTransport, MemoryBroker()), "", home)
        await stack.enter_async_context(platform)
        await platform.start(gateways=1, workers=1, make_engine=lambda: CountingEngine(step_time=STEP))
        port = urlsplit(platform.urls[0]).port or 0
        await _measure_quiet(port, QUIET, WARM_UP)
        rows = [_row("alone", 0, await _measure_quiet(port, QUIET, seconds))]
        fair = platform.gateways[0].publish_queue
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=600))
        batches = [
            asyncio.create_task(_flood(http, platform.urls[0], NOISY_TOKENS[number % len(NOISY_TOKENS)]))
            for number in range(flood // BATCH)
        ]
        async with asyncio.timeout(FILLING):
            while fair.waiting < flood - 2 * SLOTS:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.1)
        held = fair.waiting
        rows.append(_row("beside the noisy one", held, await _measure_quiet(port, QUIET, seconds)))
        for batch in batches:
            batch.cancel()
        await asyncio.gather(*batches, return_exceptions=True)
    alone = rows[0]["ttft_p99_ms"]
    return [{**row, "p99_over_alone": _ratio(row["ttft_p99_ms"], alone)} for row in rows]


async def _flood(http: httpx.AsyncClient, url: str, tokens: int) -> None:
    """Request batches of answers, one job each, without end."""
    body = {"model": MODEL, "prompt": [[1, 2, 3]] * BATCH, "max_tokens": tokens}
    while True:
        answer = await http.post(f"{url}/completions", json=body, headers={"authorization": f"Bearer {NOISY}"})
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:  # the queue's wait is not measured yet
            await asyncio.sleep(0.5)
        else:
            answer.raise_for_status()


async def _measure_quiet(port: int, key: str, seconds: float) -> list[Exchange]:
    client = Client(Target("127.0.0.1", port, key, MODEL, QUIET_TOKENS))
    await client.open_connections(8)
    await client.open_loop(RATE, seconds)
    client.close()
    return client.exchanges


def _row(how: str, held: int, exchanges: Sequence[Exchange]) -> Row:
    firsts = [each.first - each.due for each in exchanges if each.first is not None]
    return {
        "quiet_requests": how,
        "noisy_jobs_held": held,
        "requests": len(exchanges),
        "without_a_token": len(exchanges) - len(firsts),
        "ttft_p50_ms": milliseconds(percentile(firsts, 50)) if firsts else None,
        "ttft_p99_ms": milliseconds(percentile(firsts, 99)) if firsts else None,
    }


def _ratio(value: object, base: object) -> float | None:
    return value / base if isinstance(value, float) and isinstance(base, float) else None


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.fairness`: measure the quiet tenant's TTFT, and write `fairness.json`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result file")
    parser.add_argument("--seconds", type=float, default=8.0, help="seconds per load")
    parser.add_argument("--flood", type=int, default=1000, help="queued jobs of the noisy tenant")
    arguments = parser.parse_args(words)
    os.environ["HEADRACE_MAX_WAIT"] = "600"  # a thousand are let in, or there is nothing to be seen
    logging.configure("benchmark", level="error")
    rows = asyncio.run(measure(arguments.seconds, arguments.flood))
    settings = {
        "seconds": arguments.seconds,
        "noisy_jobs": arguments.flood,
        "places": SLOTS,
        "step_ms": 1000 * STEP,
        "quiet_per_s": RATE,
        "quiet_tokens": QUIET_TOKENS,
        "noisy_tokens": sum(NOISY_TOKENS) / len(NOISY_TOKENS),
        "transport": "memory",
    }
    result = make_result("fairness", settings, rows)
    print_result(result, write(result, arguments.out))


if __name__ == "__main__":
    main()
