"""Measures peer engines and ours in turns, so that a machine that slows down affects all alike; computes medians."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from benchmarks.measures import median
from benchmarks.peers.peer import Peer, PeerFailed, Size
from benchmarks.results import Row

Log = Callable[[str], None]
Seconds = dict[str, dict[Size, list[float]]]


def alternate(peers: Sequence[Peer], sizes: Sequence[Size], rounds: int, log: Log) -> tuple[Seconds, dict[str, str]]:
    """Measure every engine in `peers` at each batch size, once per round, one engine after the other.

    An engine that fails is left out of later rounds.

    Returns:
        The seconds of all rounds by engine and size, and the errors of engines that failed.
    """
    seconds: Seconds = {peer.name: defaultdict(list) for peer in peers}
    failures: dict[str, str] = {}
    for number in range(1, rounds + 1):
        for peer in peers:
            if peer.name in failures:
                continue
            try:
                measured = peer.measure(sizes)
            except PeerFailed as error:
                failures[peer.name] = str(error)
                log(f"round {number}: {peer.name} failed: {error}")
                continue
            for size, spent in measured.items():
                seconds[peer.name][size].append(spent)
            log(f"round {number}: {peer.name}: " + ", ".join(f"{rate(s, t):.0f}" for s, t in measured.items()))
    return seconds, failures


def rate(size: Size, seconds: float) -> float:
    """Return a batch's tokens per second, if it took `seconds`: prompt tokens if a prefill, else output tokens."""
    return size.sequences * (size.inputs if size.outputs == 1 else size.outputs) / seconds


def rows(peers: Sequence[Peer], sizes: Sequence[Size], seconds: Seconds, failures: dict[str, str]) -> list[Row]:
    """Return a row per batch size and engine: its median tokens/s, and `of_best_peer`, the ratio to the best peer."""
    own = {peer.name for peer in peers if peer.ours}
    table: list[Row] = []
    for size in sizes:
        medians = {name: rate(size, median(runs[size])) for name, runs in seconds.items() if runs.get(size)}
        best = max((figure for name, figure in medians.items() if name not in own), default=None)
        for peer in peers:
            figure, runs = medians.get(peer.name), [rate(size, t) for t in seconds[peer.name].get(size, [])]
            table.append(
                {
                    "work": "prefill" if size.outputs == 1 else "generate",
                    "sequences": size.sequences,
                    "inputs": size.inputs,
                    "outputs": size.outputs,
                    "peer": peer.name,
                    "setting": peer.setting,
                    "tokens_per_second": figure,
                    "low": min(runs, default=None),
                    "high": max(runs, default=None),
                    "runs": len(runs),
                    "of_best_peer": figure / best if figure and best else None,
                    "failure": failures.get(peer.name),
                }
            )
    return table
