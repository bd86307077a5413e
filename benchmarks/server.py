"""`python -m benchmarks.server`: measures servers under load in turns: ours through gateway and RabbitMQ, and peers.

Writes `server-closed.json` (III, and V with the row `engine alone`), `server-open.json` (IV) and
`server-first-token-under-load.json`. Everything, broker and client too, shares this machine's cores. Arguments after
`--` configure the engine that is measured alone.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from multiprocessing import get_context
from pathlib import Path
from types import FrameType

from rich.console import Console

from benchmarks import engine_driver, server_tables
from benchmarks.client import Endpoint
from benchmarks.engine import add_engine_arguments, engine_under_test
from benchmarks.engine_tables import warm_up
from benchmarks.measures import medians, summary
from benchmarks.peers.peer import PeerWorkspace
from benchmarks.report import print_result
from benchmarks.results import RESULTS, Row, Value, make_result, write
from benchmarks.server_tables import Load
from benchmarks.servers import SERVERS, ServerFailed
from infra.home import environment
from infra.home.settings import LauncherSettings
from runtime import logging

TABLES = ("closed", "open", "first-token-under-load")
console = Console(highlight=False)


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.server`: load the chosen servers in turns, and write a result file per table."""
    arguments = _parser().parse_args(words)
    signal.signal(signal.SIGTERM, _leave)
    logging.configure("benchmark", level="warning")
    settings = environment.load(LauncherSettings)
    workspace = PeerWorkspace(settings.folder.path / "peers", Path(settings.model_or_default), os.cpu_count() or 1)
    clients = tuple(int(count) for count in arguments.clients.split(","))
    load = Load(clients, arguments.requests_each, arguments.open_seconds, arguments.probes)
    found: dict[str, list[list[Row]]] = defaultdict(list)
    for number in range(1, arguments.rounds + 1):
        for table, rows in _round(arguments, workspace, load).items():
            found[table].append(rows)
        console.print(f"round {number} of {arguments.rounds} done")
    described: dict[str, Value] = {
        "model": workspace.model.name,
        "workload": f"{server_tables.INPUTS} in, {server_tables.OUTPUTS} out, greedy",
        "rounds": arguments.rounds,
        "objective_ttft_s": server_tables.OBJECTIVES.ttft,
        "objective_tpot_s": server_tables.OBJECTIVES.tpot,
    }
    for table, rounds in found.items():
        result = make_result(f"server-{table}", described, medians(rounds))
        print_result(result, write(result, arguments.out))


def _round(arguments: argparse.Namespace, workspace: PeerWorkspace, load: Load) -> dict[str, list[Row]]:
    """Measure every server once."""
    found: dict[str, list[Row]] = defaultdict(list)
    for name, started in _targets(arguments, workspace).items():
        try:
            with started as endpoint:
                server_tables.warm(endpoint, load)
                for table, rows in _tables(arguments.table or TABLES, endpoint, load).items():
                    found[table] += [{"server": name, **row} for row in rows]
                    console.print(f"{name}: {table} done")
        except ServerFailed as error:
            found["closed"].append({"server": name, "failure": str(error)})
            console.print(f"{name} failed: {error}")
    if arguments.engine_alone:
        found["closed"] += [{"server": "engine alone", **row} for row in _engine_alone(arguments, load)]
    return found


def _tables(wanted: Sequence[str], endpoint: Endpoint, load: Load) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    if "closed" in wanted or "open" in wanted:
        found["closed"] = server_tables.closed(endpoint, load)
    if "open" in wanted:
        found["open"] = server_tables.open_loop(endpoint, load, server_tables.capacity(found["closed"]))
    if "first-token-under-load" in wanted:
        found["first-token-under-load"] = server_tables.first_token_under_load(endpoint, load)
    return found


def _targets(arguments: argparse.Namespace, workspace: PeerWorkspace) -> dict[str, AbstractContextManager[Endpoint]]:
    if arguments.base_url:
        return {"given": nullcontext(Endpoint(arguments.base_url, arguments.api_key, arguments.served_model))}
    return {name: SERVERS[name](workspace) for name in arguments.server or ["headrace"]}


def _engine_alone(arguments: argparse.Namespace, load: Load) -> list[Row]:
    """Run the same closed loops on our engine, called directly, to show the overhead of gateway, queue and client.

    In a fresh process each time, as a worker's engine has: the memory that earlier rounds left made it slower.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(closed_loops_of_an_engine, arguments.engine, load).result()


def closed_loops_of_an_engine(words: Sequence[str], load: Load) -> list[Row]:
    """Run the closed loops of `load` on an engine alone, in this process, configured by the arguments `words`.

    Returns a result row per number of clients, which shows what the server around the engine costs.
    """
    logging.configure("engine", level="warning")
    parser = argparse.ArgumentParser()
    add_engine_arguments(parser, speculation="auto")  # as a worker has it
    engine = warm_up(engine_under_test(parser.parse_args(words), max_num_seqs=64)())
    gc.collect()
    gc.freeze()  # as the engine's own process does
    rows: list[Row] = []
    for clients in load.clients:
        requests = load.requests(max(4, clients * load.requests_each))
        timelines = list(engine_driver.closed_loop(engine, requests, clients).timelines.values())
        rows.append({"clients": clients, **summary(timelines)})
    return rows


def _leave(_signal: int, _frame: FrameType | None) -> None:
    """Exit on SIGTERM by an exception, so that every context stops the processes it started."""
    sys.exit(143)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server", description=__doc__)
    parser.add_argument(
        "--server", action="append", choices=list(SERVERS), help="a server; may be repeated; default: ours"
    )
    parser.add_argument("--base-url", help="URL of a running server, ending in /v1")
    parser.add_argument("--api-key", default="none")
    parser.add_argument("--served-model", default="smollm2-135m-instruct", help="name of the model on that server")
    parser.add_argument("--table", action="append", choices=TABLES, help="a table; may be repeated; default: all")
    parser.add_argument("--clients", default="1,4,16,64")
    parser.add_argument("--requests-each", type=int, default=2, help="requests per client in the closed loop")
    parser.add_argument("--open-seconds", type=float, default=20, help="seconds per rate of the open loop")
    parser.add_argument("--probes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--engine-alone", action="store_true", help="also measure our engine without the platform")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("engine", nargs="*", help="arguments of our engine, after `--`")
    return parser


if __name__ == "__main__":
    main()
