"""`python -m benchmarks.responses`: measures what `/v1/responses` costs beyond `/v1/chat/completions`.

The whole platform runs around an engine that only counts. Requests with the same prompt, streamed and not, stored and
not, arrive at random (Poisson, the same arrivals for each kind) in turns; each round measures every kind, every second
round in the opposite order. Everything shares this machine's cores. Writes `responses.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pymongo import MongoClient

from benchmarks import platform_stack
from benchmarks.measures import medians
from benchmarks.platform import CAPACITY, HOST, STEP_SECONDS, measure_load
from benchmarks.platform_client import PROMPT, Target
from benchmarks.platform_stack import Platform
from benchmarks.report import print_result, print_rows
from benchmarks.results import RESULTS, Row, make_result, write
from runtime import lifecycle, logging

CHAT, RESPONSES = "chat completions", "responses"
QUANTILES = (50, 95)
SETTLING_SECONDS = 2.0
"""Seconds after each load in which billing settles the load's last requests."""
WRITES = ("insert", "update", "delete")
"""Counters of the store's write commands."""
COLUMNS = ("requests", "failed", *(f"{time}_p{q}_ms" for time in ("ttft", "e2e") for q in QUANTILES))
PROCESSES = {"gateway-1_cpu_ms": "gateway_cpu_ms", "store_cpu_ms": "store_cpu_ms"}
"""Columns of processes' CPU time per request in the rows of a load, and in the result."""
Kind = tuple[bool, bool, str]
"""Whether requests are streamed, whether their answers are stored, and their API."""
KINDS: Sequence[Kind] = tuple(itertools.product((True, False), (False, True), (CHAT, RESPONSES)))


@dataclass
class KindTarget(Target):
    """The server, key and request of a load of one kind of requests."""

    kind: Kind = KINDS[0]

    @property
    def path(self) -> str:
        """Path of the URL of the kind's API."""
        return super().path if self.kind[2] == CHAT else "/v1/responses"

    def fields(self) -> dict[str, Any]:
        """Return the fields of a request of this kind, besides the model."""
        streamed, stored, api = self.kind
        if api == RESPONSES:
            own: dict[str, Any] = {"input": PROMPT, "max_output_tokens": self.max_tokens}
        else:
            own = super().fields()
            if not streamed:
                del own["stream_options"]
        return {**own, "stream": streamed, "store": stored}


async def measure(platform: Platform, rate: float, seconds: float, rounds: int) -> list[Row]:
    """Measure every kind of requests at `rate` per second for `seconds` in each round; return the rounds' medians."""
    store: MongoClient[dict[str, Any]] = MongoClient(platform.store_url)
    try:
        for kind in KINDS:  # code is loaded, connections are open, the key is known
            await measure_load(_target(platform, kind), platform.cpu_seconds, rate, 2.0)
        repeats = []
        for number in range(rounds):
            rows: dict[Kind, Row] = {}
            for kind in KINDS if number % 2 == 0 else KINDS[::-1]:
                await asyncio.sleep(SETTLING_SECONDS)
                before = await _writes(store)
                load = await measure_load(_target(platform, kind), platform.cpu_seconds, rate, seconds, QUANTILES)
                await asyncio.sleep(SETTLING_SECONDS)
                rows[kind] = _row(kind, load, await _writes(store) - before)
            repeats.append(compared(rows))
    finally:
        store.close()
    return medians(repeats)


def _target(platform: Platform, kind: Kind) -> Target:
    return KindTarget(HOST, platform.port, platform.key, platform_stack.MODEL, kind=kind)


async def _writes(store: MongoClient[dict[str, Any]]) -> int:
    """Return the number of write commands that the store has executed."""
    counters = (await asyncio.to_thread(store.admin.command, "serverStatus"))["opcounters"]
    return sum(int(counters[name]) for name in WRITES)


def _row(kind: Kind, load: Row, writes: int) -> Row:
    streamed, stored, api = kind
    return {
        "api": api,
        "answer": "streamed" if streamed else "whole",
        "stored": "yes" if stored else "no",
        **{column: load[column] for column in COLUMNS},
        **{name: load[column] for column, name in PROCESSES.items()},
        "store_writes": writes / max(1, cast(int, load["requests"])),
    }


def compared(rows: dict[Kind, Row]) -> list[Row]:
    """Return the rows of one round with what responses add to chat completions, and the writes that storing adds."""
    for (streamed, stored, api), row in rows.items():
        chat = rows[streamed, stored, CHAT]
        for column in ("ttft_p50_ms", "e2e_p50_ms", "gateway_cpu_ms"):
            row[f"added_{column}"] = _difference(row, chat, column) if api == RESPONSES else None
        unstored = rows[streamed, False, api]
        row["writes_added_by_storing"] = _difference(row, unstored, "store_writes") if stored else None
    return [rows[kind] for kind in KINDS]


def _difference(row: Row, base: Row, column: str) -> float:
    return cast(float, row[column]) - cast(float, base[column])


async def run(arguments: argparse.Namespace) -> None:
    """Run a platform in a temporary home, measure, and write the result unless it is a dry run."""
    if (task := asyncio.current_task()) is not None:  # on SIGTERM, stop the platform's processes too
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with platform_stack.running(step_time=STEP_SECONDS, capacity=CAPACITY) as platform:
        rows = await measure(platform, arguments.rate, arguments.seconds, arguments.rounds)
    if arguments.dry_run:
        print_rows(rows, "responses")
        return
    settings: Row = {
        "requests_per_second": arguments.rate,
        "tokens": Target.max_tokens,
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        "seed": 1,
    }
    result = make_result("responses", settings, rows)
    print_result(result, write(result, arguments.out))


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.responses`: measure both APIs in turns, and write `responses.json`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.responses", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds, each with every kind of requests")
    parser.add_argument("--seconds", type=float, default=15.0, help="seconds of each measurement")
    parser.add_argument("--rate", type=float, default=20.0, help="requests per second")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result file")
    parser.add_argument("--dry-run", action="store_true", help="write no result")
    logging.configure("benchmark", level="warning")
    lifecycle.run(run(parser.parse_args(words)))


if __name__ == "__main__":
    main()
