"""Tests of the founding paper's benchmark: what it measures for which tables, on a platform that only counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from benchmarks import paper
from benchmarks.client import Endpoint
from benchmarks.measures import Timeline
from benchmarks.paper import DRY_RUN, Measured, Platform, Prompts
from benchmarks.paper_tables import Run, StartUp, WorkerTotals
from benchmarks.workloads import Request

WORDS = [[100 + number] for number in range(2000)]


@dataclass(frozen=True)
class InstantPlatform(Platform):
    """Answers every request in a second, and notes the requests and clients of each load."""

    loads: list[tuple[int, int]] = field(default_factory=list)

    def closed_loop(self, requests: Sequence[Request], clients: int) -> Run:
        self.loads.append((len(requests), clients))
        return self._answers(requests, clients)

    def open_loop(self, requests: Sequence[Request], rate: float, seed: int) -> Run:
        self.loads.append((len(requests), 0))
        return self._answers(requests, len(requests))

    def _answers(self, requests: Sequence[Request], clients: int) -> Run:
        timelines = [
            Timeline(at, [at + 0.1, at + 1.0], at + 1.0, request.output_tokens, accepted=at)
            for at, request in enumerate(requests)
        ]
        return Run(timelines, clients, WorkerTotals(len(requests), len(requests), 1000, 0))


def platform() -> InstantPlatform:
    return InstantPlatform(Endpoint("http://test/v1", "key", "model"), "http://test/metrics")


def test_a_round_gives_rows_for_every_table() -> None:
    running, found = platform(), Measured(starts=[StartUp(1.0, 2.0)])
    paper._round(running, Prompts(WORDS), DRY_RUN, paper.TABLES, found)
    for table in paper.TABLES[:-1]:
        rows = paper._rows(table, "fast", found, DRY_RUN)
        assert rows
        assert {row["setting"] for row in rows} == {"fast"}
    assert [clients for _, clients in running.loads] == [4, 1, 2, 1, 2, 1, 2, 0, 0, 0, 0]
    assert all(count >= DRY_RUN.requests_each * clients for count, clients in running.loads[1:])


def test_only_the_loads_of_the_chosen_tables_run() -> None:
    running = platform()
    paper._round(running, Prompts(WORDS), DRY_RUN, ["lengths"], Measured())
    assert running.loads[1:] == [(DRY_RUN.prompts, DRY_RUN.shuffled_clients)]


def test_no_prompt_is_sent_twice() -> None:
    prompts = Prompts(WORDS)
    sent = [tuple(each.prompt_ids) for name in paper.WORKLOADS for _ in (1, 2) for each in prompts.requests(name, 20)]
    assert len(set(sent)) == len(sent)


def test_tables_with_and_without_speculation_are_different_results() -> None:
    assert paper.result_name("batch", "auto") == "paper-batch"
    assert paper.result_name("batch", "off") == "paper-batch-plain"


def test_settings_in_the_environment_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SPECULATION", "off")
    with pytest.raises(SystemExit, match="unset HEADRACE_SPECULATION"):
        paper.main(["--dry-run"])


def test_the_rates_of_the_open_loop_are_shares_of_the_best_closed_loop() -> None:
    running, found = platform(), Measured()
    paper._round(running, Prompts(WORDS), replace(DRY_RUN, open_seconds=40.0), ["open"], found)
    assert found.capacity == pytest.approx(1.0, rel=0.5)  # one request a second
    offered = [count for count, clients in running.loads if not clients]
    assert offered == [round(share * found.capacity * 40) for share in paper.SHARES]
