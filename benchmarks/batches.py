"""`python -m benchmarks.batches`: measures what a batch does to the TTFT of people who use the same model meanwhile.

`headrace up` with one worker, whose model runs on this machine. People's requests arrive at random (Poisson, seeded) in
turns without and beside a batch (`/v1/batches`) of thousands of lines that wait or run: in a round at the same
moments, with prompts of their own. Everything, broker and client too, shares this machine's cores. Writes
`batches.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import openai

from benchmarks import client, workloads
from benchmarks.client import Endpoint
from benchmarks.measures import Timeline, milliseconds, percentile
from benchmarks.report import print_result, print_rows
from benchmarks.results import Row, make_result, write
from benchmarks.servers import headrace_in
from infra.home import environment
from infra.home.settings import LauncherSettings
from runtime import lifecycle, logging

VOCAB_SIZE = 49152
LINE_INPUTS, LINE_OUTPUTS = 16, 16
"""Tokens of a batch's line."""
STARTED_LINES = 64
"""Lines that a batch has answered before people's requests are measured beside it."""
ENDED = ("completed", "failed", "expired", "cancelled")


@dataclass(frozen=True)
class People:
    """Requests of people: their number per second, and the tokens of each."""

    name: str
    rate: float
    inputs: int
    outputs: int


@dataclass
class Measured:
    """What was measured of one load without a batch, or beside one."""

    timelines: list[Timeline]
    lines: int = 0
    seconds: float = 0.0
    waiting: int | None = None
    """Fewest lines that had not been answered at the end of a round."""


async def measure(endpoint: Endpoint, loads: Sequence[People], arguments: argparse.Namespace) -> list[Row]:
    """Measure each load of people without and beside a batch, in turns; return a result row for each."""
    found = {(load.name, beside): Measured([]) for load in loads for beside in (False, True)}
    seed = 0
    async with openai.AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key, max_retries=10) as api:
        await people_timelines(endpoint, loads[0], 5.0, 0, 0)
        for number in range(arguments.rounds):
            for load in loads:
                for beside in (False, True) if number % 2 == 0 else (True, False):
                    seed += 1
                    measured = found[load.name, beside]
                    if not beside:
                        measured.timelines += await people_timelines(endpoint, load, arguments.seconds, number, seed)
                        continue
                    async with _batch(api, endpoint.model, arguments.lines, seed) as batch:
                        before, began = await _answered(api, batch), time.perf_counter()
                        measured.timelines += await people_timelines(endpoint, load, arguments.seconds, number, seed)
                        after = await _answered(api, batch)
                        measured.lines += after - before
                        measured.seconds += time.perf_counter() - began
                        waiting = arguments.lines - after
                        measured.waiting = waiting if measured.waiting is None else min(waiting, measured.waiting)
    return [row for load in loads for row in _rows(load, found[load.name, False], found[load.name, True])]


async def people_timelines(endpoint: Endpoint, load: People, seconds: float, when: int, seed: int) -> list[Timeline]:
    """Send people's requests for `seconds`, each with a prompt of its own; return their timelines.

    `when` draws the moments of arrival, `seed` the prompts.
    """
    arrivals = [at for at in workloads.poisson(round(2 * load.rate * seconds) + 20, load.rate, when) if at < seconds]
    requests = workloads.fixed(len(arrivals), VOCAB_SIZE, load.inputs, load.outputs, seed)
    return await client.open_loop(endpoint, requests, arrivals)


@asynccontextmanager
async def _batch(api: openai.AsyncOpenAI, model: str, lines: int, seed: int) -> AsyncIterator[str]:
    """Run a batch in the block, which begins when lines are answered; provides its id. At the end it is cancelled."""
    requests = workloads.fixed(lines, VOCAB_SIZE, LINE_INPUTS, LINE_OUTPUTS, 10_000 + seed)
    content = b"".join(
        json.dumps(
            {
                "custom_id": str(number),
                "method": "POST",
                "url": "/v1/completions",
                "body": {
                    "model": model,
                    "prompt": each.prompt_ids,
                    "max_tokens": each.output_tokens,
                    "ignore_eos": True,
                },
            }
        ).encode()
        + b"\n"
        for number, each in enumerate(requests)
    )
    file = await api.files.create(file=("lines.jsonl", content), purpose="batch")
    batch = await api.batches.create(input_file_id=file.id, endpoint="/v1/completions", completion_window="24h")
    while await _answered(api, batch.id) < min(STARTED_LINES, lines // 2):  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.2)
    try:
        yield batch.id
    finally:
        if (await api.batches.retrieve(batch.id)).status not in ENDED:
            await api.batches.cancel(batch.id)
        while (await api.batches.retrieve(batch.id)).status not in ENDED:  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def _answered(api: openai.AsyncOpenAI, batch: str) -> int:
    counts = (await api.batches.retrieve(batch)).request_counts
    if counts is None or counts.failed:
        raise RuntimeError(f"lines of the batch failed: {counts}")
    return counts.completed


def _rows(load: People, alone: Measured, beside: Measured) -> list[Row]:
    rows = [_row(load, "without", alone), _row(load, "beside", beside)]
    for column in ("ttft_p50_ms", "ttft_p95_ms"):
        for row in rows:
            value, base = row[column], rows[0][column]
            ratio = value / base if isinstance(value, float) and isinstance(base, float) else None
            row[column.removesuffix("_ms") + "_over_without"] = ratio
    return rows


def _row(load: People, batch: str, measured: Measured) -> Row:
    good = [each for each in measured.timelines if each.succeeded]
    firsts = [each.ttft for each in good]
    return {
        "people": load.name,
        "requests_per_second": load.rate,
        "tokens": f"{load.inputs} in, {load.outputs} out",
        "batch": batch,
        "requests": len(measured.timelines),
        "failed": len(measured.timelines) - len(good),
        "ttft_p50_ms": milliseconds(percentile(firsts, 50)),
        "ttft_p95_ms": milliseconds(percentile(firsts, 95)),
        "tpot_p50_ms": milliseconds(percentile([each.tpot for each in good if each.tpot is not None], 50)),
        "lines_answered_per_second": measured.lines / measured.seconds if measured.seconds else None,
        "fewest_lines_left": measured.waiting,
    }


async def run(arguments: argparse.Namespace) -> None:
    """Run a platform in a temporary home, measure, and write the result unless it is a dry run."""
    if (task := asyncio.current_task()) is not None:  # on SIGTERM, stop the platform's processes too
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    loads = (
        People("conversations", arguments.rate, 64, 32),
        People("bursts", arguments.burst_rate, 16, 4),
    )
    model = environment.load(LauncherSettings).model_or_default
    with (
        TemporaryDirectory(prefix="headrace-bench-") as folder,
        headrace_in(Path(folder), Path(model), {"HEADRACE_MAX_WAIT": "600"}) as endpoint,
    ):
        rows = await measure(endpoint, loads, arguments)
    settings: Row = {
        "model": Path(model).name,
        "line": f"{LINE_INPUTS} tokens in, {LINE_OUTPUTS} out",
        "lines": arguments.lines,
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        "seed": 1,
    }
    if arguments.dry_run:
        print_rows(rows, "batches")
        return
    result = make_result("batches", settings, rows)
    print_result(result, write(result))


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.batches`: measure people's requests in turns, and write `batches.json`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batches", description=__doc__)
    parser.add_argument("--rounds", type=int, default=6, help="rounds, each with every load without and beside a batch")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds of each measurement")
    parser.add_argument("--lines", type=int, default=3000, help="lines of each batch")
    parser.add_argument("--rate", type=float, default=1.0, help="people's requests per second")
    parser.add_argument("--burst-rate", type=float, default=15.0, help="people's short requests per second")
    parser.add_argument("--dry-run", action="store_true", help="write no result")
    logging.configure("benchmark", level="warning")
    lifecycle.run(run(parser.parse_args(words)))


if __name__ == "__main__":
    main()
