"""Defines the measures of the benchmarks (TTFT, TPOT, goodput, ...) from the times that a client observes.

- TTFT: request sent to first non-empty content.
- TPOT: (end to end - TTFT) / (output tokens - 1).
- ITL: gaps between chunks with content.
- Throughput: output tokens of a fixed number of requests over the time to finish all of them.
- Goodput: requests per second that met every objective.

Times are seconds of any one clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import t as student

from benchmarks.results import Row, Value


@dataclass
class Timeline:
    """The observed times of one request. `output_tokens` comes from `usage`; it is not the number of chunks.

    `accepted` is when the server's status line arrived.
    """

    sent: float
    chunks: list[float] = field(default_factory=list)
    finished: float | None = None
    output_tokens: int = 0
    error: str | None = None
    accepted: float | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the request ended with content and without an error."""
        return self.error is None and self.finished is not None and bool(self.chunks)

    @property
    def ttft(self) -> float:
        """Time to first token of the request: seconds from sending it to its first content."""
        return self.chunks[0] - self.sent

    @property
    def end_to_end(self) -> float:
        """Seconds from sending the request to its last content."""
        return self.chunks[-1] - self.sent

    @property
    def tpot(self) -> float | None:
        """Seconds per output token of the request after the first; `None` for an answer of one token."""
        return (self.end_to_end - self.ttft) / (self.output_tokens - 1) if self.output_tokens > 1 else None

    @property
    def gaps(self) -> list[float]:
        """Inter-token latencies of the request: seconds between successive chunks with content."""
        return [later - earlier for earlier, later in zip(self.chunks, self.chunks[1:], strict=False)]


@dataclass(frozen=True)
class Objectives:
    """Latency objectives of a request, in seconds."""

    ttft: float
    tpot: float

    def met(self, timeline: Timeline) -> bool:
        """Return whether one request, by its timeline, succeeded within these objectives of TTFT and TPOT."""
        if not timeline.succeeded:
            return False
        return timeline.ttft <= self.ttft and (timeline.tpot is None or timeline.tpot <= self.tpot)


def percentile(values: Sequence[float], q: float) -> float | None:
    """Return the `q`-th percentile (0 to 100) of `values`, interpolated linearly; `None` without values."""
    return float(np.percentile(values, q)) if len(values) else None


def median(values: Sequence[float]) -> float:
    """Return the median of `values`.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values")
    return float(np.median(values))


@dataclass(frozen=True)
class Interval:
    """The mean of a sample, and its 95 % confidence interval: `mean` plus or minus `margin`.

    `margin` is `None` for a sample of one.
    """

    mean: float
    margin: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Return the interval of the mean of independent `values`, by Student's t.

        Raises:
            ValueError: there are no values.
        """
        if not values:
            raise ValueError("no values")
        mean, count = float(np.mean(values)), len(values)
        if count == 1:
            return cls(mean, None)
        return cls(mean, float(student.ppf(0.975, count - 1) * np.std(values, ddof=1) / np.sqrt(count)))


def medians(rounds: Sequence[Sequence[Row]]) -> list[Row]:
    """Return the median rows of a table that was measured in several rounds: the median of each number, row by row.

    Text is that of the first round.

    Raises:
        ValueError: the rounds have different numbers of rows.
    """
    if any(len(rows) != len(rounds[0]) for rows in rounds):
        raise ValueError("a system failed in one round and not in another: measure again")
    return [
        {column: _middle([row.get(column) for row in same]) for column in same[0]} for same in zip(*rounds, strict=True)
    ]


def _middle(values: Sequence[Value]) -> Value:
    numbers = [value for value in values if isinstance(value, int | float)]
    return median(numbers) if numbers else values[0]


def throughput(timelines: Sequence[Timeline]) -> float:
    """Return the output tokens per second from the first request sent to the last finished; 0 if none succeeded."""
    good = [timeline for timeline in timelines if timeline.succeeded]
    if not good:
        return 0.0
    begin, end = min(t.sent for t in timelines), max(t.chunks[-1] for t in good)
    return sum(t.output_tokens for t in good) / (end - begin)


def goodput(timelines: Sequence[Timeline], objectives: Objectives) -> float:
    """Return how many requests per second met the objectives, over the time until all requests were finished."""
    good = [timeline for timeline in timelines if timeline.succeeded]
    if not good:
        return 0.0
    begin, end = min(t.sent for t in timelines), max(t.chunks[-1] for t in good)
    return sum(map(objectives.met, timelines)) / (end - begin)


def summary(timelines: Sequence[Timeline]) -> Row:
    """Return the result row of a load, from its requests' timelines.

    It has requests, failures, tokens/s, and p50 and p99 of TTFT, TPOT and ITL in milliseconds.
    """
    good = [timeline for timeline in timelines if timeline.succeeded]
    series = {
        "ttft": [t.ttft for t in good],
        "tpot": [t.tpot for t in good if t.tpot is not None],
        "itl": [gap for t in good for gap in t.gaps],
    }
    row: Row = {
        "requests": len(timelines),
        "failed": len(timelines) - len(good),
        "output_tokens": sum(t.output_tokens for t in good),
        "tokens_per_second": throughput(timelines),
    }
    for name, values in series.items():
        for q in (50, 99):
            row[f"{name}_p{q}_ms"] = milliseconds(percentile(values, q))
    return row


def milliseconds(seconds: float | None) -> float | None:
    """Convert seconds to milliseconds; `None` stays `None`."""
    return None if seconds is None else seconds * 1000
