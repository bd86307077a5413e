"""Tables of a measurement: accuracy, tokens and time of each way, and votes that stop against those of all answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.results import Row
from benchmarks.test_time_compute.attempts import Attempt
from benchmarks.test_time_compute.methods import FIXED_VOTE, SAMPLE, Way
from benchmarks.test_time_compute.statistics import difference, wilson
from benchmarks.test_time_compute.task import LANGUAGES
from router.messages import SearchMethod


def accuracy_rows(attempts: Sequence[Attempt]) -> list[Row]:
    """Return a row for each family and way. The first tasks of all ways are the same ones, in the same order."""
    rows: list[Row] = []
    for family in dict.fromkeys(each.task.family for each in attempts):
        own = [each for each in attempts if each.task.family is family]
        sampled = [each.right for each in own if each.way.method == SAMPLE]
        rows += [_accuracy_row(way, [each for each in own if each.way == way], sampled) for way in _ways(own)]
    return rows


def _ways(attempts: Sequence[Attempt]) -> list[Way]:
    return list(dict.fromkeys(each.way for each in attempts))


def _accuracy_row(way: Way, attempts: list[Attempt], sampled: list[bool]) -> Row:
    right = [each.right for each in attempts]
    low, high = wilson(sum(right), len(right))
    row: Row = {
        "tasks": attempts[0].task.family.value,
        "method": way.method,
        "n": way.n,
        "answers": len(right),
        "accuracy": sum(right) / len(right),
        "low": low,
        "high": high,
        "gain": None,
        "gain_low": None,
        "gain_high": None,
        "verdict": None,
        "generated": float(np.mean([each.generated for each in attempts])),
        "read_by_verifier": float(np.mean([each.scored for each in attempts])),
        "seconds": float(np.median([each.seconds for each in attempts])),
    }
    for language in LANGUAGES:
        own = [each.right for each in attempts if each.task.language == language]
        row[f"accuracy_{language}"] = sum(own) / len(own) if own else None
    if way.method != SAMPLE:
        least, most = difference(right, sampled)
        gain = (sum(right) - sum(sampled)) / len(right)
        row |= {"gain": gain, "gain_low": least, "gain_high": most, "verdict": _verdict(least, most)}
    return row


def _verdict(low: float, high: float) -> str:
    """Return what the interval of a difference says."""
    if low > 0:
        return "helps"
    return "harms" if high < 0 else "no clear effect"


def vote_rows(attempts: Sequence[Attempt]) -> list[Row]:
    """Return a row for each family and N: what stopping saves, and what it costs in accuracy."""
    rows: list[Row] = []
    for family in dict.fromkeys(each.task.family for each in attempts):
        own = [each for each in attempts if each.task.family is family]
        for way in (each for each in _ways(own) if each.method == FIXED_VOTE):
            fixed = [each for each in own if each.way == way]
            stopping = [each for each in own if each.way == Way(SearchMethod.SELF_CONSISTENCY.value, way.n)]
            rows.append(_vote_row(way, fixed, stopping))
    return rows


def _vote_row(way: Way, fixed: list[Attempt], stopping: list[Attempt]) -> Row:
    stops = [each.stopped for each in fixed if each.stopped is not None]
    low, high = difference([each.right for each in stopping], [each.right for each in fixed])
    tokens = [float(np.mean([each.generated for each in some])) for some in (fixed, stopping)]
    return {
        "tasks": fixed[0].task.family.value,
        "n": way.n,
        "answers": len(fixed),
        "tokens_of_all": tokens[0],
        "tokens_with_stop": tokens[1],
        "tokens_saved": 1 - tokens[1] / tokens[0],
        "accuracy_of_all": sum(each.right for each in fixed) / len(fixed),
        "accuracy_with_stop": sum(each.right for each in stopping) / len(stopping),
        "difference_low": low,
        "difference_high": high,
        "replay_answers_saved": 1 - float(np.mean([stop.answers for stop in stops])) / way.n,
        "replay_accuracy": sum(stop.right for stop in stops) / len(stops),
    }
