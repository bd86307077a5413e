"""Measures the tables of the server benchmark on one server: closed loop (III), open loop (IV), TTFT under load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import uvloop
from numpy.random import default_rng

from benchmarks import client, workloads
from benchmarks.client import Endpoint
from benchmarks.measures import Objectives, goodput, milliseconds, percentile, summary
from benchmarks.results import Row
from benchmarks.workloads import Request

VOCAB_SIZE = 49152
INPUTS, OUTPUTS = 144, 128
OBJECTIVES = Objectives(ttft=1.0, tpot=0.1)
SHARES = (0.25, 0.5, 0.75, 1.0)


@dataclass
class Load:
    """The size of a load; `seed` increases with every request list, so that no prompt is used twice."""

    clients: tuple[int, ...]
    requests_each: int
    open_seconds: float
    probes: int
    seed: int = 0

    def requests(self, count: int, inputs: int = INPUTS, outputs: int = OUTPUTS) -> list[Request]:
        """Return `count` requests with new random prompts of `inputs` tokens, which no earlier call returned.

        Each generates `outputs` tokens.
        """
        self.seed += 1
        return workloads.fixed(count, VOCAB_SIZE, inputs, outputs, self.seed)


def warm(endpoint: Endpoint, load: Load) -> None:
    """Send a few short requests to the server at `endpoint` before it is measured."""
    uvloop.run(client.closed_loop(endpoint, load.requests(8, 64, 8), 4))


def closed(endpoint: Endpoint, load: Load) -> list[Row]:
    """Run a closed loop on the server at `endpoint` for each number of clients in `load`.

    Returns a result row of latencies and throughput for each.
    """
    rows: list[Row] = []
    for clients in load.clients:
        requests = load.requests(max(4, clients * load.requests_each))
        rows.append({"clients": clients, **summary(uvloop.run(client.closed_loop(endpoint, requests, clients)))})
    return rows


def open_loop(endpoint: Endpoint, load: Load, capacity: float) -> list[Row]:
    """Send Poisson arrivals to the server at `endpoint`, at several shares of `capacity` (requests/s).

    Returns a result row of goodput and latencies for each share.
    """
    rows: list[Row] = []
    for share in SHARES:
        rate = capacity * share
        requests = load.requests(max(4, round(rate * load.open_seconds)))
        arrivals = workloads.poisson(len(requests), rate, seed=load.seed)
        timelines = uvloop.run(client.open_loop(endpoint, requests, arrivals))
        row: Row = {"share_of_capacity": share, "offered_per_second": rate}
        rows.append({**row, "goodput_per_second": goodput(timelines, OBJECTIVES), **summary(timelines)})
    return rows


def first_token_under_load(endpoint: Endpoint, load: Load) -> list[Row]:
    """Measure the server's TTFT for prompts of 128 tokens that arrive now and then while 16 long streams run.

    Returns one result row, in a list.
    """
    streams, probes = load.requests(16, 128, 1800), load.requests(load.probes, 128, 4)
    gaps = [float(gap) for gap in default_rng(load.seed).uniform(0.05, 0.25, len(probes))]
    times = [t.ttft for t in uvloop.run(client.under_load(endpoint, streams, probes, gaps)) if t.succeeded]
    row: Row = {"streams": len(streams), "prompt_tokens": 128, "probes": len(times)}
    return [row | {f"ttft_p{q}_ms": milliseconds(percentile(times, q)) for q in (50, 99)}]


def capacity(rows: Sequence[Row]) -> float:
    """Return a server's capacity in requests/s: the highest rate among the rows of `closed`, from their tokens/s."""
    rates = [row["tokens_per_second"] for row in rows]
    return max(rate for rate in rates if isinstance(rate, float)) / OUTPUTS
