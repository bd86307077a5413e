"""Tables of attempts: accuracy with its interval and the effect of a method, and what votes that stop save."""

from __future__ import annotations

import pytest

from benchmarks.test_time_compute.attempts import Attempt, StoppedVote
from benchmarks.test_time_compute.methods import FIXED_VOTE, GREEDY, SAMPLE, Way
from benchmarks.test_time_compute.tables import accuracy_rows, vote_rows
from benchmarks.test_time_compute.task import LANGUAGES, Family
from benchmarks.test_time_compute.task_sets import evaluation_tasks

ENGLISH, POLISH = (evaluation_tasks(Family.EQUATION, language, 20) for language in LANGUAGES)
TASKS = [task for pair in zip(ENGLISH, POLISH, strict=True) for task in pair]
BEST, STOPS, ALL = Way("best_of_n", 4), Way("self_consistency", 16), Way(FIXED_VOTE, 16)


def attempts(way: Way, right: list[bool], tokens: int, stopped: StoppedVote | None = None) -> list[Attempt]:
    return [
        Attempt(task, way, each, tokens, 7, float(number), stopped)
        for number, (task, each) in enumerate(zip(TASKS, right, strict=True))
    ]


def test_a_method_that_is_right_more_often_helps() -> None:
    sampled, better, worse = [True, False] * 20, [True] * 40, [False] * 40
    rows = accuracy_rows(
        attempts(Way(SAMPLE, 1), sampled, 30) + attempts(BEST, better, 120) + attempts(Way(GREEDY, 1), worse, 30)
    )
    assert [(row["method"], row["answers"], row["accuracy"], row["verdict"]) for row in rows] == [
        (SAMPLE, 40, 0.5, None),
        ("best_of_n", 40, 1, "helps"),
        (GREEDY, 40, 0, "harms"),
    ]
    assert (rows[1]["gain"], rows[1]["generated"], rows[1]["read_by_verifier"], rows[1]["seconds"]) == (
        0.5,
        120,
        7,
        19.5,
    )
    assert (rows[0]["accuracy_en"], rows[0]["accuracy_pl"]) == (1, 0)
    assert rows[0]["low"] == pytest.approx(0.352, abs=1e-3)


def test_a_small_difference_is_no_clear_effect() -> None:
    rows = accuracy_rows(attempts(Way(SAMPLE, 1), [False] * 40, 30) + attempts(BEST, [True] + [False] * 39, 120))
    assert rows[1]["verdict"] == "no clear effect"


def test_votes_that_stop_save_tokens() -> None:
    fixed = attempts(ALL, [True] * 40, 400, StoppedVote(4, False))
    (row,) = vote_rows(fixed + attempts(STOPS, [True] * 20 + [False] * 20, 100))
    assert (row["n"], row["answers"], row["tokens_saved"]) == (16, 40, 0.75)
    assert (row["accuracy_of_all"], row["accuracy_with_stop"]) == (1, 0.5)
    assert row["difference_high"] < 0 < row["replay_answers_saved"]  # type: ignore[operator]
    assert (row["replay_answers_saved"], row["replay_accuracy"]) == (0.75, 0)
