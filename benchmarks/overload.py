"""`python -m benchmarks.overload`: measures the platform at ten times its capacity: goodput, rejections, memory.

The worker's engine generates one token per sequence and step, so its capacity is known. First a closed loop measures
the capacity; then requests arrive at a multiple of it (Poisson, seeded) without retries. Expected: accepted requests
are answered as fast as before, the others are rejected at once with Retry-After, and the gateway's memory does not
grow.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections import Counter
from typing import cast

import psutil

from benchmarks import platform_stack, results
from benchmarks.measures import milliseconds, percentile
from benchmarks.platform_client import Client, Exchange, Target
from benchmarks.report import print_lines
from benchmarks.results import Row
from runtime import lifecycle

HOST = "127.0.0.1"
STEP_SECONDS = 0.02
"""Seconds per step: each sequence gets 50 tokens per second."""
DRAIN_TIMEOUT = 40.0
"""Longest wait for requests that are still queued when the load ends."""
FILL_SECONDS = 2.0
"""Seconds in which a load fills the worker; requests that end in them do not count as goodput."""
MEGABYTE = 1_000_000


async def measure(arguments: argparse.Namespace) -> list[Row]:
    """Run a platform; measure its capacity by a closed loop, then overload it; return a result row for each load."""
    async with platform_stack.running(step_time=STEP_SECONDS, capacity=arguments.sequences) as platform:
        target = Target(HOST, platform.port, platform.key, platform_stack.MODEL, arguments.tokens)
        closed = await _closed_loop(target, 2 * arguments.sequences, arguments.seconds / 6)
        capacity = cast(float, closed["goodput_per_s"])
        gateway = psutil.Process(platform.roots["gateway-1"])
        before = platform.cpu_seconds()
        flood = asyncio.create_task(_open_loop(target, arguments.factor * capacity, arguments.seconds))
        memory = [gateway.memory_info().rss]
        while not flood.done():
            await asyncio.wait({flood}, timeout=0.5)
            memory.append(gateway.memory_info().rss)
        row = flood.result()
        used = {name: total - before[name] for name, total in platform.cpu_seconds().items()}
    row["goodput_over_capacity"] = cast(float, row["goodput_per_s"]) / capacity
    row["gateway_rss_growth_mb"] = (max(memory) - memory[0]) / MEGABYTE
    row |= {f"{name}_cores": spent / arguments.seconds for name, spent in used.items()}
    return [closed, row]


async def _closed_loop(target: Target, clients: int, seconds: float) -> Row:
    client = Client(target)
    await client.open_connections(clients)
    await client.closed_loop(clients, seconds)
    client.close()
    return {"load": f"{clients} clients", **summary(client.exchanges, seconds)}


async def _open_loop(target: Target, rate: float, seconds: float) -> Row:
    client = Client(target)
    await client.open_connections(1)
    await client.open_loop(rate, seconds, drain_seconds=DRAIN_TIMEOUT)
    client.close()
    return {"load": f"{rate:.0f}/s", **summary(client.exchanges, seconds)}


def summary(exchanges: list[Exchange], seconds: float) -> Row:
    """Return the result row of a load of `seconds`: answered and rejected requests, their latencies and Retry-After."""
    began = min(each.due for each in exchanges)
    good = [each for each in exchanges if each.end is not None and not each.error and each.first is not None]
    ended = [each for each in good if FILL_SECONDS < cast(float, each.end) - began <= seconds]
    refused = [each for each in exchanges if each.error == "503" and each.end is not None]
    firsts = [cast(float, each.first) - each.due for each in good]
    refusals = [cast(float, each.end) - each.due for each in refused]
    others = Counter(
        each.error or "no end" for each in exchanges if each.error != "503" and (each.end is None or each.first is None)
    )
    waits = Counter(each.retry_after for each in refused)
    return {
        "requests": len(exchanges),
        "answered": len(good),
        "refused": len(refused),
        "failed": others.total(),
        "failed_as": ", ".join(f"{error}: {count}" for error, count in others.items()),
        "goodput_per_s": len(ended) / (seconds - FILL_SECONDS),
        "ttft_p50_ms": milliseconds(percentile(firsts, 50)) if firsts else None,
        "ttft_p99_ms": milliseconds(percentile(firsts, 99)) if firsts else None,
        "refusal_p50_ms": milliseconds(percentile(refusals, 50)) if refusals else None,
        "refusal_p90_ms": milliseconds(percentile(refusals, 90)) if refusals else None,
        "refusal_p99_ms": milliseconds(percentile(refusals, 99)) if refusals else None,
        "without_retry_after": waits[None],
        "retry_after_p50_s": percentile([float(wait) for wait in waits.elements() if wait], 50) if refused else None,
    }


async def _main(arguments: argparse.Namespace) -> None:
    if (task := asyncio.current_task()) is not None:  # on SIGTERM, stop the platform's processes too
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    rows = await measure(arguments)
    print_lines(rows)
    settings: Row = {**vars(arguments), "step_seconds": STEP_SECONDS, "seed": 1}
    if not settings.pop("dry_run"):
        print(results.write(results.make_result("overload", settings, rows)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Goodput, rejections and memory at a multiple of the capacity.")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="seconds of overload; measuring the capacity takes a sixth of that"
    )
    parser.add_argument("--factor", type=float, default=10.0, help="arrival rate as a multiple of the capacity")
    parser.add_argument("--sequences", type=int, default=8, help="sequences that the worker runs at once")
    parser.add_argument("--tokens", type=int, default=48, help="tokens per answer")
    parser.add_argument("--dry-run", action="store_true", help="write no result")
    return parser.parse_args()


if __name__ == "__main__":
    lifecycle.run(_main(_arguments()))
