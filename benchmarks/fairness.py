"""`python -m benchmarks.fairness`: what a tenant with a thousand queued jobs does to the first token of a quiet one.

One gateway and one worker, whose engine only counts, in one process with their broker and both clients. The quiet
tenant asks now and then (Poisson, seeded), first alone, then beside a noisy one that has so many jobs queued (a job is
a prompt of a completion request: a thousand connections would measure the client). Writes `fairness.json`.
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

from auth_billing.access.principal import Principal
from auth_billing.authenticator import Authenticator
from auth_billing.errors import InvalidApiKey
from benchmarks.cost_of_the_check import InMemory, StaticKey
from benchmarks.measures import milliseconds, percentile
from benchmarks.platform_client import Client, Exchange, Target
from benchmarks.report import say
from benchmarks.results import RESULTS, Row, measured, write
from gateway.app import GatewayServices
from gateway.settings import GatewaySettings
from router.bus import Bus
from router.transport.memory import MemoryBroker, MemoryTransport
from runtime import logging
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.paying_platform import MODEL

KEYS = {"hr_live_noisy": "noisy", "hr_live_quiet": "quiet"}
NOISY, QUIET = KEYS
STEP = 0.1
QUIET_TOKENS = 5
NOISY_TOKENS = (31, 41, 53, 61, 73, 83, 97, 107)
"""Answers of several lengths, so that they do not end all at once."""
PLACES = 64
BATCH = 50
"""Prompts of one noisy request."""
RATE = 6.0
"""Quiet requests a second."""
WARM_UP = 2.0
FILLING = 30.0
"""Seconds until all of the noisy tenant's requests must be there."""


class TwoKeys(StaticKey):
    """Two keys that are compared."""

    async def authenticate(self, token: str) -> Principal:
        """Whose key `token` is."""
        if token not in KEYS:
            raise InvalidApiKey("unknown")
        return Principal(key_id=KEYS[token], tenant=KEYS[token], cache_salt=KEYS[token])


class TwoTenants(InMemory):
    """The platform in memory, for two tenants; it refuses nobody, however long the line."""

    def _services(self, bus: Bus, settings: GatewaySettings) -> GatewayServices:
        services = super()._services(bus, settings)
        accounts: Authenticator = TwoKeys()
        return GatewayServices(
            bus, accounts, services.billing, services.idempotency, services.administration, services.limits
        )


async def measure(seconds: float, flood: int) -> list[Row]:
    """A row for the quiet tenant alone, and one beside the noisy one."""
    async with AsyncExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        platform = TwoTenants(partial(MemoryTransport, MemoryBroker()), "", home)
        await stack.enter_async_context(platform)
        await platform.start(gateways=1, workers=1, make_engine=lambda: CountingEngine(step_time=STEP))
        port = urlsplit(platform.urls[0]).port or 0
        await _ask(port, QUIET, WARM_UP)
        rows = [_row("alone", 0, await _ask(port, QUIET, seconds))]
        fair = platform.gateways[0].generations.fair
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=600))
        batches = [
            asyncio.create_task(_flood(http, platform.urls[0], NOISY_TOKENS[number % len(NOISY_TOKENS)]))
            for number in range(flood // BATCH)
        ]
        async with asyncio.timeout(FILLING):
            while fair.waiting < flood - 2 * PLACES:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.1)
        held = fair.waiting
        rows.append(_row("beside the noisy one", held, await _ask(port, QUIET, seconds)))
        for batch in batches:
            batch.cancel()
        await asyncio.gather(*batches, return_exceptions=True)
    alone = rows[0]["ttft_p99_ms"]
    return [{**row, "p99_over_alone": _ratio(row["ttft_p99_ms"], alone)} for row in rows]


async def _flood(http: httpx.AsyncClient, url: str, tokens: int) -> None:
    """Ask for a batch of answers, a job each, again and again."""
    body = {"model": MODEL, "prompt": [[1, 2, 3]] * BATCH, "max_tokens": tokens}
    while True:
        answer = await http.post(f"{url}/completions", json=body, headers={"authorization": f"Bearer {NOISY}"})
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:  # nobody has measured the line yet
            await asyncio.sleep(0.5)
        else:
            answer.raise_for_status()


async def _ask(port: int, key: str, seconds: float) -> list[Exchange]:
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
    """Measure and write the file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result file")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each load")
    parser.add_argument("--flood", type=int, default=1000, help="jobs that the noisy tenant has queued")
    arguments = parser.parse_args(words)
    os.environ["HEADRACE_MAX_WAIT"] = "600"  # a thousand are let in, or there is nothing to be seen
    logging.configure("benchmark", level="error")
    rows = asyncio.run(measure(arguments.seconds, arguments.flood))
    settings = {
        "seconds": arguments.seconds,
        "noisy_jobs": arguments.flood,
        "places": PLACES,
        "step_ms": 1000 * STEP,
        "quiet_per_s": RATE,
        "quiet_tokens": QUIET_TOKENS,
        "noisy_tokens": sum(NOISY_TOKENS) / len(NOISY_TOKENS),
        "transport": "memory",
    }
    result = measured("fairness", settings, rows)
    say(result, write(result, arguments.out))


if __name__ == "__main__":
    main()
