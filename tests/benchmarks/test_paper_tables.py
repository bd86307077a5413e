"""Tests of the aggregation of the founding paper's tables: classes, intervals, queue and work, windows, the knee."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import charts, paper_tables
from benchmarks.engine_driver import CacheStep, CacheUsage
from benchmarks.measures import Timeline
from benchmarks.paper_tables import Run, StartUp, WorkerTotals
from benchmarks.results import make_result

NOTHING = WorkerTotals(0.0, 0.0, 0.0, 0.0)


def answered(sent: float, first: float, last: float, tokens: int, queue: float = 0.0) -> Timeline:
    chunks = [first + (last - first) * number / 9 for number in range(10)]
    return Timeline(sent, chunks, finished=last, output_tokens=tokens, accepted=sent + queue)


def test_requests_are_classed_by_the_length_of_their_answers() -> None:
    lengths = (4, 30, 31, 300, 301, 900)
    timelines = [answered(0.0, 1.0, 2.0, tokens) for tokens in lengths[:-1]]
    rows = paper_tables.length_rows([Run([*timelines, Timeline(0.0, error="503")], 4, NOTHING)])
    assert [(row["output_tokens"], row["requests"]) for row in rows] == [
        ("1-30", 2),
        ("31-300", 2),
        ("301+", 1),
        ("all", 5),
    ]


def test_queue_and_work_are_apart_and_speed_is_of_the_work() -> None:
    runs = [Run([answered(0.0, 1.5, 3.0, 20, queue=1.0), answered(5.0, 6.0, 10.0, 20, queue=1.0)], 1, NOTHING)]
    (row, *_) = paper_tables.length_rows(runs)
    assert row["queue_ms"] == pytest.approx(1000)
    assert row["queue_ms_pm"] == pytest.approx(0)
    assert row["work_ms"] == pytest.approx(3000)  # 2 s and 4 s
    assert row["work_ms_pm"] == pytest.approx(12.706 * 1000, rel=1e-3)  # Student's t of two
    assert row["tokens_per_second_of_work"] == pytest.approx((10 + 5) / 2)


def test_the_mean_work_of_a_load_is_the_workers_and_the_rest_is_queue() -> None:
    timelines = [answered(0.0, 1.0, 4.0, 100), answered(0.0, 3.0, 6.0, 100)]
    run = Run(
        [*timelines, Timeline(0.0, error="503 busy"), Timeline(0.0, error="broken")], 2, WorkerTotals(7, 2, 200, 50)
    )
    row = paper_tables.load_row([run])
    assert (row["requests"], row["refused"], row["failed"]) == (4, 1, 1)
    assert row["work_mean_ms"] == pytest.approx(3500)
    assert row["queue_mean_ms"] == pytest.approx(1500)
    assert row["drafts"] == pytest.approx(0.25)
    with pytest.raises(ValueError, match="no request was answered"):
        paper_tables.load_row([Run([Timeline(0.0, error="503")], 1, NOTHING)])


def test_the_rates_of_windows_are_of_the_time_with_all_clients() -> None:
    steady = [answered(second, second + 0.1, second + 1.0, 50) for second in range(21)]
    rates = paper_tables.window_rates(Run(steady, 1, NOTHING))  # from 0.1 s to 20 s
    assert len(rates) == paper_tables.WINDOWS
    assert rates == pytest.approx([50.0] * paper_tables.WINDOWS, rel=0.1)
    assert sum(rates) * 1.99 == pytest.approx(20 * 50, rel=0.02)
    once = Run([answered(0.0, 1.0, 2.0, 50)], 1, NOTHING)
    assert paper_tables.window_rates(once) == [pytest.approx(25.0)]
    assert paper_tables.window_rates(Run([Timeline(0.0, error="503")], 1, NOTHING)) == []


def offered(late: int) -> list[Run]:
    """Return a run of ten requests of which `late` are answered too late."""
    good = [answered(0.0, 0.5, 1.0, 10) for _ in range(10 - late)]
    return [Run([*good, *[answered(0.0, 5.0, 6.0, 10) for _ in range(late)]], 10, NOTHING)]


def test_the_knee_is_the_highest_rate_below_the_first_that_fails() -> None:
    rows = paper_tables.rate_rows({1.1: offered(4), 0.5: offered(0), 1.4: offered(0), 0.8: offered(1)}, capacity=10.0)
    assert [row["offered_per_second"] for row in rows] == pytest.approx([5.0, 8.0, 11.0, 14.0])
    assert [row["within_objectives"] for row in rows] == pytest.approx([1.0, 0.9, 0.6, 1.0])
    assert [row["knee"] for row in rows] == ["", "knee", "", ""]


@pytest.mark.parametrize("late", [(9, 0), (0, 1)])
def test_there_is_no_knee_if_the_lowest_rate_fails_or_none_does(late: tuple[int, int]) -> None:
    rows = paper_tables.rate_rows({0.5: offered(late[0]), 0.8: offered(late[1])}, capacity=10.0)
    assert [row["knee"] for row in rows] == ["", ""]


def test_a_share_of_all_requests_has_a_margin_too() -> None:
    found = paper_tables.within_objectives(offered(0))
    assert (found.mean, found.margin) == (1.0, pytest.approx(0.278, abs=1e-3))  # Wilson's lower bound of ten of ten


def test_a_rate_at_which_all_are_refused_has_no_latency() -> None:
    (row,) = paper_tables.rate_rows({1.0: [Run([Timeline(0.0, error="503")] * 3, 3, NOTHING)]}, capacity=1.0)
    assert (row["refused"], row["within_objectives"], row["ttft_ms"], row["work_mean_ms"]) == (3, 0.0, None, None)


def test_starts_have_an_interval() -> None:
    row = paper_tables.start_up_row([StartUp(10.0, 11.0), StartUp(12.0, 13.0), StartUp(14.0, 15.0)])
    assert (row["starts"], row["ready_s"], row["token_s"]) == (3, 12.0, 13.0)
    assert row["ready_s_pm"] == pytest.approx(4.303 * 2 / 3**0.5, rel=1e-3)


def test_steps_above_the_limit_are_those_of_short_sequences() -> None:
    steps = [CacheStep(400, 394, 2), CacheStep(200, 198, 1), CacheStep(32, 20, 2), CacheStep(16, 12, 1)]
    row = paper_tables.waste_row(CacheUsage(steps))
    assert (row["steps"], row["steps_above_limit"]) == (4, 0.5)
    assert row["kv_waste_worst_step"] == pytest.approx(12 / 32)
    assert row["tokens_per_sequence_above"] == pytest.approx(32 / 3)
    assert row["tokens_per_sequence_within"] == pytest.approx(592 / 3)
    assert paper_tables.waste_row(CacheUsage(steps[:2]))["tokens_per_sequence_above"] is None


METRICS = """\
# TYPE headrace_e2e_request_latency_seconds histogram
headrace_e2e_request_latency_seconds_sum{model_name="m"} 12.5
headrace_e2e_request_latency_seconds_count{model_name="m"} 5
# TYPE headrace_generation_tokens counter
headrace_generation_tokens_total{model_name="m"} 900
# TYPE headrace_spec_decode_num_accepted_tokens counter
headrace_spec_decode_num_accepted_tokens_total{model_name="m"} 90
"""


def test_a_load_counts_what_the_worker_counted_meanwhile() -> None:
    totals = WorkerTotals.parse(METRICS)
    assert totals.since(WorkerTotals(2.5, 1, 100, 10)) == WorkerTotals(10.0, 4, 800, 80)
    with pytest.raises(KeyError):
        WorkerTotals.parse(METRICS.replace("spec_decode", "other"))


@pytest.mark.parametrize("name", ["paper-batch", "paper-open-plain"])
def test_the_tables_have_charts(name: str, tmp_path: Path) -> None:
    if name == "paper-batch":
        rows = [
            {
                "setting": setting,
                "clients": clients,
                **paper_tables.load_row([Run([answered(0, 1, 2, 50)], 1, NOTHING)]),
            }
            for setting in ("default", "fast")
            for clients in (1, 4)
        ]
    else:
        rows = [{"setting": "fast", **row} for row in paper_tables.rate_rows({0.5: offered(0), 0.8: offered(5)}, 10.0)]
    text = charts.draw([make_result(name, {}, rows)], tmp_path)[0].read_text()
    assert "fast" in text
    assert ("knee" in text) == (name != "paper-batch")
