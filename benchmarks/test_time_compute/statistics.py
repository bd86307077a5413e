"""Statistics of accuracies: Wilson's interval of a share; a bootstrap and McNemar's test of two ways' difference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import binomtest, bootstrap

RESAMPLES = 5000


def wilson(right: int, total: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a share of `total`, by Wilson's score."""
    interval = binomtest(right, total).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def difference(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the difference of two ways' accuracies on the same tasks, by bootstrap.

    `ours` and `theirs` are the ways' accuracies on each task.
    """
    gains = np.array(ours, dtype=float) - np.array(theirs, dtype=float)
    found = bootstrap((gains,), np.mean, n_resamples=RESAMPLES, method="percentile", rng=0)
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def mcnemar(only_ours: int, only_theirs: int) -> float:
    """Return the p-value of McNemar's exact test that two ways are right equally often on the same tasks.

    `only_ours` and `only_theirs` are the numbers of tasks that only one of the ways got right.
    """
    decided = only_ours + only_theirs
    return float(binomtest(only_ours, decided).pvalue) if decided else 1.0
