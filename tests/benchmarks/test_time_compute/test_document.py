"""Published results: `docs/test-time-compute.md` has the tables of the result files, and the chart exists."""

from __future__ import annotations

from pathlib import Path

from benchmarks.results import read
from benchmarks.test_time_compute.document import (
    ACCURACY,
    BEGIN,
    CHART,
    DOCUMENT,
    FINISH,
    REPLAY,
    RESULTS,
    VOTES,
    draw,
    render,
)


def test_the_document_has_what_the_files_give() -> None:
    accuracy, votes, replay = (read(RESULTS / f"{name}.json") for name in (ACCURACY, VOTES, REPLAY))
    text = DOCUMENT.read_text()
    assert text.partition(BEGIN)[2].partition(FINISH)[0].strip() == render(accuracy, votes, replay)
    methods = {row["method"] for row in accuracy.rows}
    assert {"greedy", "self_consistency", "best_of_n", "weighted_best_of_n", "beam_search", "dvts"} <= methods


def test_the_same_results_give_the_same_chart(tmp_path: Path) -> None:
    accuracy = read(RESULTS / f"{ACCURACY}.json")
    draw(accuracy, tmp_path / "one.svg")
    draw(accuracy, tmp_path / "two.svg")
    drawn = (tmp_path / "one.svg").read_bytes()
    assert drawn == (tmp_path / "two.svg").read_bytes()
    assert b"weighted_best_of_n" in drawn
    assert CHART.is_file()
