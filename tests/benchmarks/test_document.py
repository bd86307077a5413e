"""Tests of docs/performance.md and its charts: both are generated from the result files."""

from __future__ import annotations

from pathlib import Path

from benchmarks import charts
from benchmarks.document import DOCUMENT, pivot, read_all, render, table
from benchmarks.results import Result, Row, make_result


def compared() -> Result:
    def row(peer: str, sequences: int, rate: float | None, **more: str) -> Row:
        work: Row = {"work": "generate", "sequences": sequences, "inputs": 128, "outputs": 128}
        best = 1.5 if peer == "ours" else None
        return {**work, "peer": peer, "setting": "best", "tokens_per_second": rate, "of_best_peer": best, **more}

    rows = [row(peer, size, 100.0 * size) for peer in ("ours", "other") for size in (1, 4)]
    return make_result("peers-engine", {"rounds": 3}, [*rows, {"peer": "absent", "failure": "no AVX512"}])


def test_the_document_is_what_the_files_give() -> None:
    results = read_all()
    assert DOCUMENT.read_text() == render(results)
    drawn = [result.name for result in results if result.name in charts.CHARTS]
    assert all((DOCUMENT.parent / "images" / charts.file_name(name)).is_file() for name in drawn)


def test_a_section_names_its_file_machine_command_and_chart() -> None:
    result = compared()
    text = render([result])
    for expected in ("peers-engine.json", result.machine.cpu, result.command, "bench-peers-engine.svg", "rounds 3"):
        assert expected in text


def test_a_result_without_a_description_is_shown() -> None:
    text = render([make_result("new-thing", {}, [{"requests_per_second": 1234.5}])])
    assert "## New thing" in text
    assert "| requests/s |" in text
    assert "| 1,234 |" in text or "| 1,235 |" in text


def test_columns_without_a_figure_are_left_out() -> None:
    assert table([{"a": 1, "b": None}, {"a": 2, "b": None}]).splitlines()[0] == "| a |"


def test_a_margin_is_beside_its_mean() -> None:
    lines = table([{"rate": 12.5, "rate_pm": 0.5}, {"rate": 3.0, "rate_pm": None}]).splitlines()
    assert (lines[0], lines[2], lines[3]) == ("| rate |", "| 12.5 ± 0.5 |", "| 3 |")


def test_engines_are_rows_and_one_that_could_not_run_says_why() -> None:
    lines = pivot(compared().rows).splitlines()
    assert lines[0] == "| engine | setting | batch 1 | batch 4 | why not |"
    assert lines[2] == "| ours | best | 100 | 400 | - |"
    assert lines[4] == "| absent | - | - | - | no AVX512 |"
    assert lines[5] == "| **first row over the best peer** | - | 1.5 | 1.5 | - |"


def test_the_same_results_give_the_same_charts(tmp_path: Path) -> None:
    closed = make_result(
        "server-closed", {}, [{"server": "ours", "clients": n, "tokens_per_second": 10.0 * n} for n in (1, 4, 16)]
    )
    first = charts.draw([compared(), closed], tmp_path / "one")
    again = charts.draw([compared(), closed], tmp_path / "two")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    assert b"ours" in first[1].read_bytes()
