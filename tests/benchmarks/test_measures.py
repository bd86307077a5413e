from __future__ import annotations

import pytest

from benchmarks.measures import Interval, Objectives, Timeline, goodput, median, percentile, summary, throughput


def timeline(sent: float, chunks: list[float], tokens: int) -> Timeline:
    return Timeline(sent, chunks, finished=chunks[-1], output_tokens=tokens)


def test_one_request() -> None:
    one = timeline(10.0, [10.2, 10.3, 10.6], tokens=5)
    assert one.ttft == pytest.approx(0.2)
    assert one.tpot == pytest.approx(0.1)
    assert one.gaps == pytest.approx([0.1, 0.3])


def test_an_answer_of_one_token_has_no_time_per_token() -> None:
    assert timeline(0.0, [1.0], tokens=1).tpot is None


def test_throughput_counts_from_the_first_sent_to_the_last_seen() -> None:
    assert throughput([timeline(0.0, [1.0, 2.0], 10), timeline(1.0, [4.0], 10)]) == pytest.approx(5.0)
    assert throughput([]) == 0


def test_failures_are_counted_and_measured_nowhere() -> None:
    row = summary([timeline(0.0, [1.0], 4), Timeline(0.0, error="503")])
    assert (row["requests"], row["failed"], row["output_tokens"]) == (2, 1, 4)
    assert row["ttft_p50_ms"] == pytest.approx(1000)
    assert row["tpot_p50_ms"] == pytest.approx(0)
    assert row["itl_p99_ms"] is None


def test_goodput_requires_every_objective() -> None:
    quick, late, slow = timeline(0, [0.1, 0.5], 5), timeline(0, [1.0, 1.4], 5), timeline(0, [0.1, 2.0], 5)
    assert goodput([quick, late, slow, Timeline(0.0)], Objectives(ttft=0.5, tpot=0.2)) == pytest.approx(0.5)


def test_percentiles() -> None:
    assert percentile([1.0, 2.0, 3.0], 50) == 2.0
    assert percentile([], 50) is None
    with pytest.raises(ValueError, match="no values"):
        median([])


def test_the_interval_of_a_mean_is_by_students_t() -> None:
    found = Interval.of([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.mean == 3.0
    assert found.margin == pytest.approx(2.776 * 2.5**0.5 / 5**0.5, rel=1e-3)
    assert Interval.of([7.0]) == Interval(7.0, None)
    with pytest.raises(ValueError, match="no values"):
        Interval.of([])
