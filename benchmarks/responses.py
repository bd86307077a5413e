"""`python -m benchmarks.responses`: measures what `/v1/responses` costs beyond `/v1/chat/completions`.

The whole platform runs around an engine that only counts. Requests of both APIs with the same prompt arrive at the same
time (Poisson, half of the rate each), so that both meet the same state of the machine; each round measures streamed and
whole answers, stored and not. Everything shares this machine's cores. Writes `responses.json`.
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
Answer = tuple[bool, bool]
"""Whether answers are streamed, and whether they are stored."""
ANSWERS: Sequence[Answer] = tuple(itertools.product((True, False), (False, True)))
APIS = (CHAT, RESPONSES)


@dataclass
class ApiTarget(Target):
    """The server, key and request of a load of one API with answers of one kind."""

    api: str = CHAT
    answer: Answer = ANSWERS[0]

    @property
    def path(self) -> str:
        """Path of the API's URL."""
        return super().path if self.api == CHAT else "/v1/responses"

    def fields(self) -> dict[str, Any]:
        """Return the fields of a request of this kind, besides the model."""
        streamed, stored = self.answer
        if self.api == RESPONSES:
            own: dict[str, Any] = {"input": PROMPT, "max_output_tokens": self.max_tokens}
        else:
            own = super().fields()
            if not streamed:
                del own["stream_options"]
        return {**own, "stream": streamed, "store": stored}


async def measure(platform: Platform, rate: float, seconds: float, rounds: int) -> list[Row]:
    """Measure both APIs at `rate` per second for `seconds`, each kind of answers in each round; return the medians."""
    store: MongoClient[dict[str, Any]] = MongoClient(platform.store_url)
    try:
        for answer in ANSWERS:  # code is loaded, connections are open, the key is known
            await _load_both(platform, answer, rate, 2.0)
        repeats = []
        for _ in range(rounds):
            loads: dict[Answer, list[Row]] = {}
            for answer in ANSWERS:
                await asyncio.sleep(SETTLING_SECONDS)
                before = await _writes(store)
                loads[answer] = await _load_both(platform, answer, rate, seconds)
                await asyncio.sleep(SETTLING_SECONDS)
                writes = await _writes(store) - before
                requests = sum(cast(int, load["requests"]) for load in loads[answer])
                for load in loads[answer]:
                    load["store_writes"] = writes / max(1, requests)
            repeats.append(compared(loads))
    finally:
        store.close()
    return medians(repeats)


async def _load_both(platform: Platform, answer: Answer, rate: float, seconds: float) -> list[Row]:
    """Load both APIs at once, each at half of the rate; return the row of each of `APIS`."""
    targets = [
        ApiTarget(HOST, platform.port, platform.key, platform_stack.MODEL, api=api, answer=answer) for api in APIS
    ]
    loads = [
        measure_load(target, platform.cpu_seconds, rate / len(APIS), seconds, QUANTILES, seed)
        for seed, target in enumerate(targets, 1)
    ]
    return await asyncio.gather(*loads)


async def _writes(store: MongoClient[dict[str, Any]]) -> int:
    """Return the number of write commands that the store has executed."""
    counters = (await asyncio.to_thread(store.admin.command, "serverStatus"))["opcounters"]
    return sum(int(counters[name]) for name in WRITES)


def compared(loads: dict[Answer, list[Row]]) -> list[Row]:
    """Return the rows of one round with what responses add to chat completions, and the writes that storing adds.

    `loads` has the rows of both `APIS`, with the writes per request of both.
    """
    rows = []
    for (streamed, stored), (chat, responses) in loads.items():
        for api, load in zip(APIS, (chat, responses), strict=True):
            row: Row = {"api": api, "answer": "streamed" if streamed else "whole", "stored": "yes" if stored else "no"}
            row |= {column: load[column] for column in (*COLUMNS, "store_writes")}
            for column in ("ttft_p50_ms", "e2e_p50_ms"):
                row[f"added_{column}"] = _difference(load, chat, column) if api == RESPONSES else None
            unstored = loads[streamed, False][0]
            row["writes_added_by_storing"] = _difference(load, unstored, "store_writes") if stored else None
            rows.append(row)
    return rows


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
    """Run `python -m benchmarks.responses`: measure both APIs at once, and write `responses.json`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.responses", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds, each with every kind of answers")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds of each measurement")
    parser.add_argument("--rate", type=float, default=20.0, help="requests per second of both APIs")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result file")
    parser.add_argument("--dry-run", action="store_true", help="write no result")
    logging.configure("benchmark", level="warning")
    lifecycle.run(run(parser.parse_args(words)))


if __name__ == "__main__":
    main()
