"""`python -m benchmarks.peers`: installs peer engines, measures them and ours in turns, writes `peers-engine.json`.

Arguments after `--` configure all rows of our engine, as those of `python -m benchmarks.engine`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from benchmarks.peers import compare
from benchmarks.peers.llama_cpp import LlamaCpp
from benchmarks.peers.openvino import OpenVino
from benchmarks.peers.ours import SETTINGS, Headrace
from benchmarks.peers.peer import Peer, PeerFailed, PeerWorkspace, Size
from benchmarks.peers.transformers import Transformers, TransformersBatching
from benchmarks.peers.vllm import Vllm
from benchmarks.report import print_result
from benchmarks.results import RESULTS, make_result, write
from infra.home import environment
from infra.home.settings import LauncherSettings
from infra.install.step import StepFailed

PEERS: dict[str, Callable[[PeerWorkspace], Peer]] = {
    "llama.cpp": LlamaCpp,  # first: it makes the files that others read
    "openvino": OpenVino,
    "transformers": Transformers,
    "transformers-batching": TransformersBatching,
    "vllm": Vllm,
}
PREFILL = Size(1, 1024, 1)


def main() -> None:
    """Run `python -m benchmarks.peers`: install the peers, measure all engines in turns, write `peers-engine.json`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--peer", action="append", choices=list(PEERS), help="a peer; may be repeated; default: all")
    parser.add_argument("--batches", default="1,4,16,64", help="batch sizes, with 128 tokens in and 128 out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--install-only", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("ours", nargs="*", help="arguments of our engine, after `--`")
    arguments = parser.parse_args()
    settings = environment.load(LauncherSettings)
    workspace = PeerWorkspace(settings.folder.path / "peers", Path(settings.model_or_default), arguments.threads)
    console = Console(highlight=False)
    peers, failures = _installed([PEERS[name](workspace) for name in arguments.peer or PEERS], console)
    if arguments.install_only:
        sys.exit(1 if failures else 0)
    contenders: list[Peer] = [
        *(Headrace(workspace, name, arguments.ours) for name in SETTINGS),
        *peers,
    ]
    sizes = [PREFILL, *(Size(int(batch), 128, 128) for batch in arguments.batches.split(","))]
    seconds, failed = compare.alternate(contenders, sizes, arguments.rounds, console.print)
    result = make_result(
        "peers-engine",
        {
            "model": workspace.model.name,
            "threads": workspace.threads,
            "rounds": arguments.rounds,
            "workload": "128/128, greedy",
        },
        compare.rows(contenders, sizes, seconds, failed) + [_absent(name, why) for name, why in failures.items()],
        {peer.name: peer.version() for peer in peers},
    )
    print_result(result, write(result, arguments.out))


def _installed(peers: list[Peer], console: Console) -> tuple[list[Peer], dict[str, str]]:
    """Install peers; return those that are installed, and the errors of the other peers by name."""
    ready, failures = [], {}
    for peer in peers:
        console.print(f"installing {peer.name} (nothing to do if it is there)")
        try:
            peer.install()
            ready.append(peer)
        except (StepFailed, PeerFailed) as error:
            failures[peer.name] = str(error)
            console.print(f"{peer.name} can't be installed: {error}")
    return ready, failures


def _absent(name: str, why: str) -> dict[str, str | int | float | bool | None]:
    return {"peer": name, "failure": why}


if __name__ == "__main__":
    main()
