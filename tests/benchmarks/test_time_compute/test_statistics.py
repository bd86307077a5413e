"""Statistics of accuracies."""

from __future__ import annotations

import pytest

from benchmarks.test_time_compute.statistics import difference, mcnemar, wilson


def test_wilsons_interval() -> None:
    assert wilson(8, 10) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)
    assert wilson(0, 10) == pytest.approx((0, 0.2775328), abs=1e-6)


def test_a_difference_is_taken_task_by_task() -> None:
    assert difference([True, False] * 20, [True, False] * 20) == (0, 0)
    low, high = difference([True] * 20 + [False] * 20, [False] * 40)
    assert low == pytest.approx(0.35, abs=0.03)
    assert high == pytest.approx(0.65, abs=0.03)


def test_mcnemars_test_is_a_sign_test_of_the_tasks_that_differ() -> None:
    assert mcnemar(0, 0) == mcnemar(4, 4) == 1
    assert mcnemar(0, 6) == mcnemar(6, 0) == pytest.approx(2 / 2**6)
    assert mcnemar(1, 9) == pytest.approx(2 * (1 + 10) / 2**10)
