"""Tests of the comparison with fake peers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.peers.compare import alternate, rate, rows
from benchmarks.peers.peer import Peer, PeerFailed, PeerWorkspace, Size, run_program

WORKSPACE = PeerWorkspace(Path("peers"), Path("model.gguf"), 1)
BATCH, PREFILL = Size(4, 128, 128), Size(1, 1024, 1)


class FakePeer(Peer):
    setting = "pretending"

    def __init__(self, name: str, seconds: Sequence[float], order: list[str]) -> None:
        super().__init__(WORKSPACE)
        self.ours = name == "ours"
        self.name, self._seconds, self._order = name, iter(seconds), order

    def install(self) -> None: ...

    def version(self) -> str:
        return "1"

    def measure(self, sizes: Sequence[Size]) -> dict[Size, float]:
        self._order.append(self.name)
        seconds = next(self._seconds, None)
        if seconds is None:
            raise PeerFailed("no AVX512")
        return dict.fromkeys(sizes, seconds)


def test_rates() -> None:
    assert rate(BATCH, 2.0) == 256
    assert rate(PREFILL, 2.0) == 512


def test_engines_alternate_and_ours_is_compared_with_the_best() -> None:
    order: list[str] = []
    peers = [
        FakePeer("ours", [1, 2, 9], order),
        FakePeer("slow", [4, 4, 4], order),
        FakePeer("fast", [2, 3, 4], order),
    ]
    seconds, failures = alternate(peers, [BATCH], 3, lambda _: None)
    assert order == ["ours", "slow", "fast"] * 3
    assert not failures
    ours, slow, fast = rows(peers, [BATCH], seconds, failures)
    assert (ours["tokens_per_second"], ours["low"], ours["high"]) == (256, pytest.approx(512 / 9), 512)
    assert ours["of_best_peer"] == pytest.approx(1.5)
    assert fast["of_best_peer"] == 1
    assert slow["of_best_peer"] == pytest.approx(0.75)


def test_a_failing_peer_is_reported_and_does_not_stop_the_rest() -> None:
    order: list[str] = []
    peers = [FakePeer("ours", [1, 1], order), FakePeer("broken", [], order)]
    seconds, failures = alternate(peers, [BATCH], 2, lambda _: None)
    assert order == ["ours", "broken", "ours"]
    ours, broken = rows(peers, [BATCH], seconds, failures)
    assert ours["of_best_peer"] is None
    assert (broken["tokens_per_second"], broken["failure"]) == (None, "no AVX512")


def test_a_failed_program_is_reported_by_its_last_line() -> None:
    with pytest.raises(PeerFailed, match="no such processor"):
        run_program(["sh", "-c", "echo first >&2; echo no such processor >&2; exit 1"])
