"""`python -m benchmarks.platform`: measures the platform's own overhead, beside LiteLLM's proxy (tables V and VI).

*Tax*: the whole platform around an engine that only counts, and LiteLLM's proxy in front of a stub that streams as many
tokens at once, in turns with the same client: time to first token at fixed rates (Poisson arrivals, counted from when a
request was due), and the highest requests/s. *Fan-out*: token events/s through one gateway.

Broker, store and client share the machine's cores; `others_cpu_ms` is the CPU time of all other processes meanwhile: a
run in which it is large says little. The time that a system adds is its time less that of the stub alone.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import time
import urllib.request
from collections.abc import Callable, Sequence
from typing import cast

import psutil

from benchmarks import platform_litellm, platform_stack, results
from benchmarks.measures import medians, milliseconds, percentile
from benchmarks.platform_client import Client, Exchange, Target
from benchmarks.platform_stub import TOKENS
from benchmarks.report import print_lines
from benchmarks.results import Row
from runtime import lifecycle

RATES = (20.0, 100.0)
LITELLM_RATES = (20.0,)
CLIENTS = 32
"""Number of clients of the closed loop."""
STREAMS = (64, 256, 1024)
STEP_SECONDS = 0.0
"""The counting engine streams its tokens at once, as the stub behind LiteLLM does."""
FAN_OUT_STEP_SECONDS = 0.010
FAN_OUT_TOKENS = 1500
"""Tokens per stream; a client whose stream has ended starts another."""
CAPACITY = 256
HOST = "127.0.0.1"

CpuSeconds = Callable[[], dict[str, float]]
"""CPU time used so far, by process."""


# --- Tax ------------------------------------------------------------------------------------------


async def headrace_tax(rates: list[float], seconds: float) -> list[Row]:
    """Measure the platform's latency around an engine that only counts: `seconds` at each rate, then a closed loop.

    Rates are requests per second. Returns a result row for each load.
    """
    async with platform_stack.running(step_time=STEP_SECONDS, capacity=CAPACITY) as platform:
        target = Target(HOST, platform.port, platform.key, platform_stack.MODEL)
        return await _measure_system("headrace", target, platform.cpu_seconds, rates, seconds)


async def litellm_tax(workers: int, rates: list[float], seconds: float) -> list[Row]:
    """Measure LiteLLM's proxy by the loads of `headrace_tax`, and before it the proxy's stub upstream alone.

    Returns a result row for each load.
    """
    with platform_litellm.running(workers=workers) as litellm:
        stub = Target(HOST, litellm.stub_port, "none", platform_litellm.MODEL)
        rows = await _measure_system("stub", stub, litellm.cpu_seconds, [rates[0]], seconds / 2, closed=False)
        proxy = Target(HOST, litellm.port, platform_litellm.KEY, platform_litellm.MODEL)
        name = f"litellm, {workers} worker{'s' if workers > 1 else ''}"
        rows += await _measure_system(name, proxy, litellm.cpu_seconds, rates, seconds)
    return rows


async def _measure_system(
    system: str, target: Target, cpu: CpuSeconds, rates: list[float], seconds: float, *, closed: bool = True
) -> list[Row]:
    await measure_load(target, cpu, 20.0, 2.0)  # code is loaded, connections are open, keys are known
    rows: list[Row] = []
    for rate in [*rates, None] if closed else rates:
        load = f"{CLIENTS} clients" if rate is None else f"{rate:g}/s"
        rows.append({"system": system, "load": load, **await measure_load(target, cpu, rate, seconds)})
    return rows


async def measure_load(
    target: Target,
    cpu: CpuSeconds,
    rate: float | None,
    seconds: float,
    quantiles: Sequence[int] = (50, 90, 99),
    seed: int = 1,
) -> Row:
    """Load a target for `seconds` at `rate` requests/s, or in a closed loop (`None`); return its result row.

    The row has these `quantiles` of TTFT and of whole requests, and the CPU time per request of each process.
    `seed` draws the arrivals.
    """
    client = Client(target)
    await client.open_connections(CLIENTS)
    before, own, busy = cpu(), time.process_time(), _busy_seconds()
    if rate is None:
        await client.closed_loop(CLIENTS, seconds)
    else:
        await client.open_loop(rate, seconds, seed=seed)
    row, own = _summary(client.exchanges, seconds, quantiles), time.process_time() - own
    used = {name: total - before[name] for name, total in cpu().items()} | {"client": own}
    used["others"] = max(0.0, _busy_seconds() - busy - sum(used.values()))  # the kernel and other processes
    client.close()
    answered = max(1, len(client.exchanges))
    return row | {f"{name}_cpu_ms": 1000 * spent / answered for name, spent in used.items()}


def _busy_seconds() -> float:
    """Return the CPU seconds in which cores of the machine were not idle."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def _summary(exchanges: list[Exchange], seconds: float, quantiles: Sequence[int]) -> Row:
    good = [each for each in exchanges if each.end is not None and each.first is not None]
    began = min(each.due for each in exchanges)
    within = [each for each in good if cast(float, each.end) - began <= seconds]  # what ends later was not sustained
    firsts = [cast(float, each.first) - each.due for each in good]
    ends = [cast(float, each.end) - each.due for each in good]
    row: Row = {
        "requests": len(exchanges),
        "failed": len(exchanges) - len(good),
        "requests_per_s": len(within) / seconds,
        "events_per_request": sum(each.events for each in good) / max(1, len(good)),
        "tokens_per_request": sum(each.tokens for each in good) / max(1, len(good)),
    }
    for name, values in (("ttft", firsts), ("e2e", ends)):
        row |= {f"{name}_p{q}_ms": milliseconds(percentile(values, q)) for q in quantiles}
    return row


def summarise(repeats: list[list[Row]]) -> list[Row]:
    """Return the medians of the rows of repeated measurements, with the added column `added_ttft_p50_ms`.

    It is a system's median TTFT less that of the stub upstream.
    """
    rows = medians(repeats)
    stub = [row["ttft_p50_ms"] for row in rows if row["system"] == "stub"]
    for row in rows:
        if stub and row["system"] != "stub":
            row["added_ttft_p50_ms"] = cast(float, row["ttft_p50_ms"]) - cast(float, stub[0])
    return rows


# --- Fan-out --------------------------------------------------------------------------------------


async def fan_out(streams: int, seconds: float) -> Row:
    """Measure one gateway with `streams` concurrent streams (10 ms per token) for `seconds`.

    Returns a result row of token events/s, tokens/s and CPU time.
    """
    async with platform_stack.running(step_time=FAN_OUT_STEP_SECONDS, capacity=streams) as platform:
        client = Client(Target(HOST, platform.port, platform.key, platform_stack.MODEL, FAN_OUT_TOKENS))
        await client.open_connections(streams)
        await client.hold_open(streams)
        await asyncio.sleep(1.0)
        before, tokens, events = platform.cpu_seconds(), await _tokens(platform), client.events
        own, began = time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        took, own = time.perf_counter() - began, time.process_time() - own
        used = {name: total - before[name] for name, total in platform.cpu_seconds().items()} | {"client": own}
        events, tokens = client.events - events, await _tokens(platform) - tokens
        failed = sum(1 for each in client.exchanges if each.error)
        client.close()
    return {
        "streams": streams,
        "failed": failed,
        "events_per_s": events / took,
        "tokens_per_s": tokens / took,
        "events_per_gateway_core_s": events / used["gateway-1"],
        "tokens_per_gateway_core_s": tokens / used["gateway-1"],
        **{f"{name}_cores": spent / took for name, spent in used.items()},
    }


async def _tokens(platform: platform_stack.Platform) -> float:
    lines = (await asyncio.to_thread(_fetch, platform.gateway_metrics_url)).splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("headrace_tokens_streamed_total{"))


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as response:
        return str(response.read().decode())


# --- Command --------------------------------------------------------------------------------------


async def _tax(arguments: argparse.Namespace) -> None:
    repeats: list[list[Row]] = []
    workers = arguments.litellm_workers
    versions = {"litellm": await asyncio.to_thread(platform_litellm.install)} if workers else {}
    for _ in range(arguments.repeats):
        rows = await headrace_tax(arguments.rates, arguments.seconds)
        for count in workers:
            rows += await litellm_tax(count, list(LITELLM_RATES), arguments.seconds)
        repeats.append(rows)
    settings: Row = {
        "seconds": arguments.seconds,
        "repeats": arguments.repeats,
        "step_seconds": STEP_SECONDS,
        "tokens": TOKENS,
        "seed": 1,
    }
    _write_result(arguments, "platform-tax", settings, summarise(repeats), versions)


async def _fan_out(arguments: argparse.Namespace) -> None:
    rows = [await fan_out(streams, arguments.seconds) for streams in arguments.streams]
    settings = {"seconds": arguments.seconds, "step_seconds": FAN_OUT_STEP_SECONDS, "tokens": FAN_OUT_TOKENS}
    _write_result(arguments, "platform-fan-out", settings, rows, {})


def _write_result(
    arguments: argparse.Namespace, name: str, settings: Row, rows: list[Row], versions: dict[str, str]
) -> None:
    print_lines(rows)
    if not arguments.dry_run:
        print(results.write(results.make_result(name, settings, rows, versions)))


async def _main(arguments: argparse.Namespace) -> None:
    if (task := asyncio.current_task()) is not None:  # on SIGTERM, stop the platform's processes too
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    if "tax" in arguments.parts:
        await _tax(arguments)
    if "fan-out" in arguments.parts:
        await _fan_out(arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Overhead of the platform: tax and fan-out.")
    parser.add_argument("--parts", nargs="*", choices=["tax", "fan-out"], default=["tax", "fan-out"])
    parser.add_argument("--seconds", type=float, default=8.0, help="seconds per load")
    parser.add_argument(
        "--repeats", type=int, default=3, help="rounds of the tax, alternating with the peer; figures are medians"
    )
    parser.add_argument("--rates", nargs="*", type=float, default=list(RATES), help="requests/s")
    parser.add_argument("--streams", nargs="*", type=int, default=list(STREAMS))
    parser.add_argument(
        "--litellm-workers", nargs="*", type=int, default=[1, 2], help="numbers of workers, each measured as a peer"
    )
    parser.add_argument("--dry-run", action="store_true", help="write no result")
    return parser.parse_args()


if __name__ == "__main__":
    lifecycle.run(_main(_arguments()))
