"""Confidence intervals of accuracies: Wilson's for a share, and a bootstrap for the difference of two ways."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Z = 1.959964
"""Quantile of the normal distribution for 95 %."""
RESAMPLES = 5000


def wilson(right: int, total: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a share of `total`, by Wilson's score."""
    share, square = right / total, Z * Z
    centre = share + square / (2 * total)
    half = Z * math.sqrt(share * (1 - share) / total + square / (4 * total * total))
    return (centre - half) / (1 + square / total), (centre + half) / (1 + square / total)


def difference(ours: Sequence[bool], theirs: Sequence[bool]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the difference of two ways' accuracies on the same tasks, by bootstrap."""
    gains = np.array(ours, dtype=float) - np.array(theirs, dtype=float)
    drawn = np.random.default_rng(0).integers(0, len(gains), (RESAMPLES, len(gains)))
    low, high = np.percentile(gains[drawn].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)
