"""`python -m benchmarks.paper`: measures what the founding paper measured, on the whole platform and by both settings.

Its table I (speed by output length) and II (by number of clients) with shuffled prompts of TruthfulQA's lengths, then
an open loop at four rates, loads with the lengths of ShareGPT and Alpaca, start-up, and the KV cache's waste in each
engine step. Writes `paper-TABLE.json`, or `paper-TABLE-plain.json` without speculation. `default` is the platform as
it is without any setting, `fast` has 8-bit activations; both are measured in turns, with one worker and without the
assistant. Everything, broker and client too, shares this machine's cores.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from types import FrameType

import httpx
import uvloop
from rich.console import Console

from benchmarks import client, engine_driver, paper_tables, workloads
from benchmarks.client import Endpoint
from benchmarks.engine import add_engine_arguments, engine_under_test
from benchmarks.measures import Timeline
from benchmarks.paper_tables import Run, StartUp, WorkerTotals
from benchmarks.report import print_result, print_rows
from benchmarks.results import RESULTS, Row, Value, make_result, write
from benchmarks.servers import SLOTS, headrace_in, worker_metrics_url
from benchmarks.workloads import Request
from inference_worker.tokenizer.tokenizer_files import read_text_files
from infra.home import environment
from infra.home.settings import LauncherSettings
from runtime import logging

SETTINGS: dict[str, dict[str, str]] = {"default": {}, "fast": {"HEADRACE_ACTIVATION_BITS": "8"}}
WORKLOADS: dict[str, Callable[[int, Sequence[list[int]], int], list[Request]]] = {
    "questions": workloads.questions,
    "ShareGPT-like": workloads.conversations,
    "Alpaca-like": workloads.instructions,
}
SHAPES = ("ShareGPT-like", "Alpaca-like")
"""Workloads of the table `workloads`."""
OPEN, SHARES = "Alpaca-like", (0.5, 0.75, 1.0, 1.5)
"""Workload of the open loop, and its rates as shares of the best requests/s of that workload's closed loops."""
HOME = environment.variable("home")
"""The one setting that the environment may have: it says where the model is."""
TABLES = ("lengths", "batch", "open", "workloads", "start-up", "kv-waste")
console = Console(highlight=False)


@dataclass(frozen=True)
class Scale:
    """The size of the measurement.

    Attributes:
        prompts: prompts of table I in all rounds together, sent by `shuffled_clients` clients.
        clients: numbers of clients of table II.
        shape_clients: numbers of clients of the workloads of `SHAPES`.
        requests_each: least requests of a client in a closed loop.
        open_seconds: seconds in which requests arrive, at each rate of each round.
        starts: starts for the table of start-up, besides those of the rounds.
    """

    prompts: int
    rounds: int
    starts: int
    open_seconds: float
    clients: tuple[int, ...] = (1, 4, 16, 64)
    shuffled_clients: int = 16
    shape_clients: tuple[int, ...] = (16, 64)
    requests_each: int = 3


DRY_RUN = Scale(
    prompts=6, rounds=1, starts=0, open_seconds=1.0, clients=(1, 2), shuffled_clients=2, shape_clients=(1, 2)
)


@dataclass
class Prompts:
    """Makes the workloads' requests for one setting.

    `seed` increases with every list, so that no prompt is sent twice; every setting gets the same lists.
    """

    words: list[list[int]]
    seed: int = 0

    def requests(self, workload: str, count: int) -> list[Request]:
        """Return `count` requests of a workload of `WORKLOADS`, with prompts that no earlier call returned."""
        self.seed += 1
        return WORKLOADS[workload](count, self.words, self.seed)


@dataclass
class Measured:
    """What was measured by one setting, in all rounds."""

    starts: list[StartUp] = field(default_factory=list)
    closed: dict[int, list[Run]] = field(default_factory=lambda: defaultdict(list))
    """By number of clients."""
    offered: dict[float, list[Run]] = field(default_factory=lambda: defaultdict(list))
    """By share of the capacity."""
    workloads: dict[tuple[str, int], list[Run]] = field(default_factory=lambda: defaultdict(list))
    """By workload and number of clients."""
    capacity: float = 0.0
    """Best requests/s of the closed loops of `OPEN` in the first round."""


@dataclass(frozen=True)
class Platform:
    """A running platform under load."""

    endpoint: Endpoint
    metrics: str

    def closed_loop(self, requests: Sequence[Request], clients: int) -> Run:
        """Run a closed loop, and return its timelines with what the worker counted meanwhile."""
        before = self._totals()
        timelines = uvloop.run(client.closed_loop(self.endpoint, requests, clients))
        return self._run(timelines, clients, before)

    def open_loop(self, requests: Sequence[Request], rate: float, seed: int) -> Run:
        """Send Poisson arrivals of `rate` requests/s, and return their timelines with what the worker counted."""
        before = self._totals()
        arrivals = workloads.poisson(len(requests), rate, seed)
        timelines = uvloop.run(client.open_loop(self.endpoint, requests, arrivals))
        return self._run(timelines, len(requests), before)

    def _run(self, timelines: list[Timeline], clients: int, before: WorkerTotals) -> Run:
        return Run(timelines, clients, self._totals().since(before))

    def _totals(self) -> WorkerTotals:
        return WorkerTotals.parse(httpx.get(self.metrics, timeout=30).raise_for_status().text)


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.paper`: measure both settings in turns, and write a result file for each table.

    Raises:
        SystemExit: the environment has settings of Headrace, which the platforms would take over.
    """
    arguments = _parser().parse_args(words)
    if found := sorted(name for name in os.environ if name.startswith(environment.PREFIX) and name != HOME):
        raise SystemExit(f"unset {', '.join(found)}: the tables show the platform without settings")
    signal.signal(signal.SIGTERM, _leave)
    logging.configure("benchmark", level="warning")
    scale = Scale(arguments.prompts, arguments.rounds, arguments.starts, arguments.open_seconds)
    if arguments.dry_run:
        scale = DRY_RUN
    model = Path(environment.load(LauncherSettings).model_or_default)
    rows = measure(model, scale, arguments.speculation, arguments.table or TABLES)
    described: dict[str, Value] = {
        "model": model.name,
        "speculation": arguments.speculation,
        "temperature": 1.0,
        "workers": 1,
        "prompts": scale.prompts,
        "rounds": scale.rounds,
        "requests_each": scale.requests_each,
        "open_seconds": scale.open_seconds,
        "objective_ttft_s": paper_tables.OBJECTIVES.ttft,
        "objective_tpot_s": paper_tables.OBJECTIVES.tpot,
        "seed": 1,
    }
    for table, found_rows in rows.items():
        name = result_name(table, arguments.speculation)
        if arguments.dry_run:
            print_rows(found_rows, name)
            continue
        result = make_result(name, described, found_rows)
        print_result(result, write(result, arguments.out))


def result_name(table: str, speculation: str) -> str:
    """Return the name of the result of a table, which is another one without speculation."""
    return f"paper-{table}" + ("-plain" if speculation == "off" else "")


def measure(model: Path, scale: Scale, speculation: str, tables: Sequence[str]) -> dict[str, list[Row]]:
    """Measure some `tables` by both settings, in turns; return the result rows by table."""
    variables = {name: own | _speculation(speculation) for name, own in SETTINGS.items()}
    own_words = workloads.read_words(read_text_files(model).tokenizer.encode)
    prompts = {name: Prompts(own_words) for name in SETTINGS}
    found = {name: Measured() for name in SETTINGS}
    for _ in range(scale.starts):
        for name in SETTINGS:
            with _platform(model, variables[name], found[name].starts, prompts[name]):
                pass
    for number in range(scale.rounds):
        for name in SETTINGS if number % 2 == 0 else reversed(SETTINGS):
            with _platform(model, variables[name], found[name].starts, prompts[name]) as platform:
                _round(platform, prompts[name], scale, tables, found[name])
            console.print(f"round {number + 1} of {scale.rounds}: {name} done")
    rows: dict[str, list[Row]] = {}
    for table in tables:
        if table == "kv-waste":
            rows[table] = [
                row for name in SETTINGS for row in _kv_waste(name, model, speculation, scale, prompts[name])
            ]
        else:
            rows[table] = [row for name in SETTINGS for row in _rows(table, name, found[name], scale)]
    return rows


def _speculation(speculation: str) -> dict[str, str]:
    """Return the variables for `speculation`; none for the platform's own default."""
    return {} if speculation == "auto" else {"HEADRACE_SPECULATION": speculation}


@contextmanager
def _platform(model: Path, variables: dict[str, str], starts: list[StartUp], prompts: Prompts) -> Iterator[Platform]:
    """Run a platform in a temporary home while the context lasts; append to `starts` how long it took to start."""
    with TemporaryDirectory(prefix="headrace-bench-") as folder:
        begin = time.perf_counter()
        with headrace_in(Path(folder), model, variables) as endpoint:
            ready = time.perf_counter() - begin
            (first,) = uvloop.run(client.closed_loop(endpoint, prompts.requests(OPEN, 1), 1))
            if not first.succeeded:
                raise RuntimeError(f"the first request failed: {first.error}")
            starts.append(StartUp(ready, first.chunks[0] - begin))
            yield Platform(endpoint, worker_metrics_url(Path(folder)))


def _round(platform: Platform, prompts: Prompts, scale: Scale, tables: Sequence[str], found: Measured) -> None:
    """Run every load of some `tables` once."""
    platform.closed_loop([replace(each, output_tokens=8) for each in prompts.requests("questions", 8)], 4)  # warms up
    for clients in _closed_loops(scale, tables):
        count = scale.requests_each * clients
        if clients == scale.shuffled_clients:
            count = max(count, scale.prompts // scale.rounds)
        found.closed[clients].append(platform.closed_loop(prompts.requests("questions", count), clients))
    for workload in SHAPES if "workloads" in tables else (OPEN,) if "open" in tables else ():
        for clients in scale.shape_clients:
            requests = prompts.requests(workload, scale.requests_each * clients)
            found.workloads[workload, clients].append(platform.closed_loop(requests, clients))
    if "open" not in tables:
        return
    found.capacity = found.capacity or max(
        _requests_per_second(found.workloads[OPEN, clients][0]) for clients in scale.shape_clients
    )
    for share in SHARES:
        rate = share * found.capacity
        requests = prompts.requests(OPEN, max(4, round(rate * scale.open_seconds)))
        found.offered[share].append(platform.open_loop(requests, rate, prompts.seed))


def _closed_loops(scale: Scale, tables: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of clients of the closed loops that some `tables` need."""
    if "batch" in tables:
        return scale.clients
    return (scale.shuffled_clients,) if "lengths" in tables else ()


def _requests_per_second(run: Run) -> float:
    """Return the requests/s of a closed loop while every client is served; 0 if no request was answered."""
    tokens = sum(timeline.output_tokens for timeline in run.good)
    return fmean(paper_tables.window_rates(run)) * len(run.good) / tokens if tokens else 0.0


def _rows(table: str, setting: str, found: Measured, scale: Scale) -> list[Row]:
    """Return the result rows of one table by one setting."""
    rows: list[Row]
    if table == "lengths":
        rows = paper_tables.length_rows(found.closed[scale.shuffled_clients])
    elif table == "batch":
        rows = [{"clients": clients, **paper_tables.load_row(runs)} for clients, runs in found.closed.items()]
    elif table == "open":
        rows = paper_tables.rate_rows(found.offered, found.capacity)
    elif table == "workloads":
        rows = [
            {"workload": name, "clients": clients, **paper_tables.load_row(runs)}
            for (name, clients), runs in found.workloads.items()
        ]
    else:
        rows = [paper_tables.start_up_row(found.starts)]
    return [{"setting": setting, **row} for row in rows]


def _kv_waste(setting: str, model: Path, speculation: str, scale: Scale, prompts: Prompts) -> list[Row]:
    """Run each workload's closed loop on our engine, called directly, in a fresh process; return a row for each."""
    bits = SETTINGS[setting].get("HEADRACE_ACTIVATION_BITS")
    words = ["--model", str(model), "--speculation", speculation, *(["--activation-bits", bits] if bits else [])]
    loads = {name: prompts.requests(name, scale.requests_each * scale.shuffled_clients) for name in WORKLOADS}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        rows = process.submit(kv_waste_of_an_engine, words, loads, scale.shuffled_clients).result()
    return [{"setting": setting, **row} for row in rows]


def kv_waste_of_an_engine(words: Sequence[str], loads: dict[str, list[Request]], clients: int) -> list[Row]:
    """Run closed loops on an engine alone, in this process, configured by the arguments `words`.

    Returns a result row for each load, with the KV cache's waste over all steps.
    """
    logging.configure("engine", level="warning")
    parser = argparse.ArgumentParser()
    add_engine_arguments(parser)
    engine = engine_under_test(parser.parse_args(words), max_num_seqs=SLOTS)()
    block: Row = {"block_size": engine.ready().block_size, "clients": clients}
    return [
        {"workload": name, **block, **paper_tables.waste_row(engine_driver.closed_loop(engine, load, clients).cache)}
        for name, load in loads.items()
    ]


def _leave(_signal: int, _frame: FrameType | None) -> None:
    """Exit on SIGTERM by an exception, so that every context stops the processes it started."""
    sys.exit(143)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.add_argument("--table", action="append", choices=TABLES, help="a table; may be repeated; default: all")
    parser.add_argument("--prompts", type=int, default=450, help="prompts of table I; the paper's, and a night's: 2500")
    parser.add_argument("--rounds", type=int, default=2, help="rounds, each with both settings in turns")
    parser.add_argument("--starts", type=int, default=2, help="starts of each setting besides those of the rounds")
    parser.add_argument("--open-seconds", type=float, default=15.0, help="seconds of arrivals at each rate")
    parser.add_argument(
        "--speculation", choices=("auto", "off"), default="auto", help="auto is the platform's default; off: own tables"
    )
    parser.add_argument("--dry-run", action="store_true", help="the smallest load, and write no result")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result files")
    return parser


if __name__ == "__main__":
    main()
