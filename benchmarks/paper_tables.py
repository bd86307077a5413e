"""Aggregates the founding paper's measurements to result rows: by output length, by number of clients, by rate.

Intervals are 95 % confidence intervals of a mean. Those of requests' times take the requests as independent. Those of
tokens/s are by batch means: of the windows, of equal length, of the time in which every client was served.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.engine_driver import CacheStep, CacheUsage
from benchmarks.measures import Interval, Objectives, Timeline, milliseconds, percentile, throughput
from benchmarks.report import MARGIN
from benchmarks.results import Row
from benchmarks.test_time_compute.statistics import wilson
from benchmarks.workloads import ANSWER_CLASSES

WINDOWS = 10
"""Windows of a closed loop, whose tokens/s give the interval."""
OBJECTIVES = Objectives(ttft=1.0, tpot=0.1)
KNEE_SHARE = 0.9
"""Least share of requests within the objectives at a rate that a server sustains."""
WASTE_LIMIT = 0.04
"""Share of the KV cache above which the steps that waste more are counted."""
REFUSALS = ("429", "503")


@dataclass(frozen=True)
class WorkerTotals:
    """A worker's counters: seconds from the delivery of jobs to their ends, jobs, and generated and draft tokens."""

    seconds: float
    jobs: float
    tokens: float
    accepted: float

    @classmethod
    def parse(cls, text: str) -> WorkerTotals:
        """Return the counters in a worker's Prometheus metrics.

        Raises:
            KeyError: a metric is missing.
        """
        values = {
            sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples
        }
        return cls(
            values["headrace_e2e_request_latency_seconds_sum"],
            values["headrace_e2e_request_latency_seconds_count"],
            values["headrace_generation_tokens_total"],
            values["headrace_spec_decode_num_accepted_tokens_total"],
        )

    def since(self, earlier: WorkerTotals) -> WorkerTotals:
        """Return what was counted after `earlier`."""
        return WorkerTotals(
            self.seconds - earlier.seconds,
            self.jobs - earlier.jobs,
            self.tokens - earlier.tokens,
            self.accepted - earlier.accepted,
        )


@dataclass(frozen=True)
class Run:
    """One load on the platform: the requests' timelines, the load's clients, and what the worker counted meanwhile."""

    timelines: Sequence[Timeline]
    clients: int
    worker: WorkerTotals

    @property
    def good(self) -> list[Timeline]:
        """The requests that were answered."""
        return [timeline for timeline in self.timelines if timeline.succeeded]


@dataclass(frozen=True)
class StartUp:
    """The seconds from the start of `headrace up` until its API lists the model, and until a first answer's token."""

    ready: float
    first_token: float


# --- I: by output length --------------------------------------------------------------------------


def length_rows(runs: Sequence[Run]) -> list[Row]:
    """Return a result row for each class of output lengths, and one for all, from the requests of a shuffled load.

    Queue: from sending the request to the status line, which the gateway sends when a worker has taken the job, or
    after a second. Work: from there to the last token.
    """
    good = [timeline for run in runs for timeline in run.good]
    rows = []
    for low, high in ANSWER_CLASSES:
        own = [timeline for timeline in good if low <= timeline.output_tokens <= high]
        name = f"{low}+" if (low, high) == ANSWER_CLASSES[-1] else f"{low}-{high}"
        rows.append({"output_tokens": name, **_times(own)})
    return [*rows, {"output_tokens": "all", **_times(good)}]


def _times(timelines: Sequence[Timeline]) -> Row:
    row: Row = {"requests": len(timelines), "mean_tokens": _mean([t.output_tokens for t in timelines])}
    row |= _interval("tokens_per_second_of_work", [t.output_tokens / _work(t) for t in timelines])
    row |= _interval("queue_ms", [_queue(t) * 1000 for t in timelines])
    row |= _interval("work_ms", [_work(t) * 1000 for t in timelines])
    row |= _interval("ttft_ms", [t.ttft * 1000 for t in timelines])
    return row


def _queue(timeline: Timeline) -> float:
    if timeline.accepted is None:
        raise ValueError("an answered request has no status line")
    return timeline.accepted - timeline.sent


def _work(timeline: Timeline) -> float:
    return timeline.end_to_end - _queue(timeline)


# --- II: by clients -------------------------------------------------------------------------------


def load_row(runs: Sequence[Run]) -> Row:
    """Return the result row of the runs of one closed loop: throughput, latencies, and mean queue and work times.

    Work: from a job's delivery to a worker to its end, as the worker's metrics have it; queue: the rest of the time
    from sending a request to its last token. Drafts: share of the tokens that speculation guessed.

    Raises:
        ValueError: no request was answered.
    """
    good = [timeline for run in runs for timeline in run.good]
    if not good:
        raise ValueError("no request was answered")
    windows = [rate for run in runs for rate in window_rates(run)]
    row: Row = {**_counts(runs), "mean_tokens": _mean([t.output_tokens for t in good])}
    row |= _interval("tokens_per_second", windows)
    row["whole_tokens_per_second"] = _mean([throughput(run.timelines) for run in runs])
    row |= _interval("ttft_ms", [t.ttft * 1000 for t in good])
    row["ttft_p99_ms"] = milliseconds(percentile([t.ttft for t in good], 99))
    row |= _interval("tpot_ms", [t.tpot * 1000 for t in good if t.tpot is not None])
    return row | _split(runs)


def _counts(runs: Sequence[Run]) -> Row:
    timelines = [timeline for run in runs for timeline in run.timelines]
    failed = [timeline for timeline in timelines if not timeline.succeeded]
    refused = sum((timeline.error or "").startswith(REFUSALS) for timeline in failed)
    return {"requests": len(timelines), "refused": refused, "failed": len(failed) - refused}


def _split(runs: Sequence[Run]) -> Row:
    """Return the mean queue and work times, and the share of draft tokens, of all requests of `runs`."""
    ends = [timeline.end_to_end for run in runs for timeline in run.good]
    jobs, tokens = sum(run.worker.jobs for run in runs), sum(run.worker.tokens for run in runs)
    if not ends or not jobs or not tokens:
        return {"queue_mean_ms": None, "work_mean_ms": None, "drafts": None}
    work = sum(run.worker.seconds for run in runs) / jobs
    return {
        "queue_mean_ms": milliseconds(sum(ends) / len(ends) - work),
        "work_mean_ms": milliseconds(work),
        "drafts": sum(run.worker.accepted for run in runs) / tokens,
    }


def window_rates(run: Run) -> list[float]:
    """Return the tokens/s of a closed loop in equal windows of the time in which every client was served.

    That time begins when the first request of each client has its first token, and ends when the last request is
    sent. A request's tokens are divided equally among its chunks. Without such a time the whole loop is one window.
    """
    ordered = sorted(run.good, key=lambda timeline: timeline.sent)
    if not ordered:
        return []
    begin = max(timeline.chunks[0] for timeline in ordered[: run.clients])
    end = ordered[-1].sent
    if end <= begin:
        return [throughput(run.timelines)]
    times = np.concatenate([timeline.chunks for timeline in ordered])
    weights = np.concatenate([[t.output_tokens / len(t.chunks)] * len(t.chunks) for t in ordered])
    tokens, _ = np.histogram(times, bins=WINDOWS, range=(begin, end), weights=weights)
    return [float(count) * WINDOWS / (end - begin) for count in tokens]


# --- Open loop ------------------------------------------------------------------------------------


def rate_rows(runs: Mapping[float, Sequence[Run]], capacity: float) -> list[Row]:
    """Return a result row for each offered rate of an open loop; `runs` are by share of `capacity` (requests/s).

    The knee is the highest rate before the first at which less than `KNEE_SHARE` of the requests met the objectives.
    """
    rows = [_rate_row(share, runs[share], share * capacity) for share in sorted(runs)]
    failing = (number for number, share in enumerate(sorted(runs)) if within_objectives(runs[share]).mean < KNEE_SHARE)
    first = next(failing, 0)
    return [{**row, "knee": "knee" if number == first - 1 else ""} for number, row in enumerate(rows)]


def within_objectives(runs: Sequence[Run]) -> Interval:
    """Return the share of the requests of `runs` that met `OBJECTIVES`; its margin is the wider side of Wilson's."""
    met = [OBJECTIVES.met(timeline) for run in runs for timeline in run.timelines]
    share, (low, high) = sum(met) / len(met), wilson(sum(met), len(met))
    return Interval(share, max(share - low, high - share))


def _rate_row(share: float, runs: Sequence[Run], rate: float) -> Row:
    good = [timeline for run in runs for timeline in run.good]
    row: Row = {"share_of_capacity": share, "offered_per_second": rate, **_counts(runs)}
    row |= _columns("within_objectives", within_objectives(runs))
    row |= _interval("ttft_ms", [t.ttft * 1000 for t in good])
    row["ttft_p99_ms"] = milliseconds(percentile([t.ttft for t in good], 99))
    row |= _interval("tpot_ms", [t.tpot * 1000 for t in good if t.tpot is not None])
    return row | _split(runs)


# --- Start-up, KV cache ---------------------------------------------------------------------------


def start_up_row(starts: Sequence[StartUp]) -> Row:
    """Return the result row of some starts of the platform."""
    row: Row = {"starts": len(starts)}
    return row | _interval("ready_s", [s.ready for s in starts]) | _interval("token_s", [s.first_token for s in starts])


def waste_row(cache: CacheUsage) -> Row:
    """Return the result row of the KV cache's use in all steps of a load.

    The tokens per sequence in steps within and above `WASTE_LIMIT` show why some are above: their sequences are short.
    """
    above = [step for step in cache.steps if step.waste > WASTE_LIMIT]
    within = [step for step in cache.steps if step.waste <= WASTE_LIMIT]
    return {
        "steps": len(cache.steps),
        "kv_waste": cache.waste,
        "kv_waste_worst_step": cache.worst,
        "steps_above_limit": len(above) / len(cache.steps),
        "tokens_per_sequence_above": _tokens_per_sequence(above),
        "tokens_per_sequence_within": _tokens_per_sequence(within),
    }


def _tokens_per_sequence(steps: Sequence[CacheStep]) -> float | None:
    sequences = sum(step.sequences for step in steps)
    return sum(step.held for step in steps) / sequences if sequences else None


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _interval(name: str, values: Sequence[float]) -> Row:
    """Return the columns `name`, a mean, and `name` with `MARGIN`, half the width of its 95 % confidence interval."""
    if not values:
        return {name: None, name + MARGIN: None}
    return _columns(name, Interval.of(values))


def _columns(name: str, found: Interval) -> Row:
    return {name: found.mean, name + MARGIN: found.margin}
