"""The three fences of a job: attempt, position, end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RepliesLost, WorkerLost
from gateway.job_progress import JobProgress
from router.messages import REAPER, Cancelled, Delta, Failed, FailureCode, Finished, Started, Usage

USAGE = Usage(prompt_tokens=1)


def started(attempt: str = "a") -> Started:
    return Started(j="j", a=attempt, w="w", prompt_tokens=1)


def delta(start: int, count: int = 1, *, choice: int = 0, attempt: str = "a", finish: str | None = None) -> Delta:
    return Delta(j="j", a=attempt, c=choice, s=start, ids=list(range(count)), f=finish)  # type: ignore[arg-type]


def finished(attempt: str = "a") -> Finished:
    return Finished(j="j", a=attempt, usage=USAGE)


def test_tokens_in_order_are_admitted_and_counted() -> None:
    progress = JobProgress(2)
    replies = [started(), delta(0, 2), delta(0, choice=1), delta(2, finish="stop"), delta(1, choice=1, finish="length")]
    assert all(progress.admits(reply, "w") for reply in replies)
    assert progress.tokens == 5
    assert not progress.ended
    assert progress.admits(finished(), "w")
    assert progress.ended


@given(st.lists(st.integers(0, 9), max_size=30))
def test_replayed_windows_change_nothing(replays: list[int]) -> None:
    progress = JobProgress(1)
    seen = []
    sent = [delta(token) for token in range(10)]
    for position, reply in enumerate(sent):
        seen += [reply.s] if progress.admits(reply, "w") else []
        for replay in replays:
            if replay <= position:
                assert not progress.admits(sent[replay], "w")
    assert seen == list(range(10))


def test_text_without_ids_has_positions_too() -> None:
    progress = JobProgress(1)
    pieces = [Delta(j="j", a="a", s=start, ids=[], n=count, t="text") for start, count in ((0, 2), (2, 1))]
    assert [progress.admits(piece, "w") for piece in (*pieces, *pieces)] == [True, True, False, False]
    assert progress.tokens == 3
    with pytest.raises(RepliesLost):
        progress.admits(Delta(j="j", a="a", s=4, ids=[], n=1, t="gap"), "w")


def test_a_gap_is_an_error() -> None:
    progress = JobProgress(1)
    progress.admits(delta(0), "w")
    with pytest.raises(RepliesLost):
        progress.admits(delta(2), "w")


def test_a_choice_that_was_not_asked_for_is_an_error() -> None:
    with pytest.raises(RepliesLost):
        JobProgress(1).admits(delta(0, choice=1), "w")


def test_the_end_without_a_choices_end_is_an_error() -> None:
    progress = JobProgress(2)
    progress.admits(delta(0, finish="stop"), "w")
    with pytest.raises(RepliesLost):
        progress.admits(finished(), "w")


def test_a_last_delta_without_tokens_counts_once() -> None:
    progress = JobProgress(1)
    assert progress.admits(delta(0, 3), "w")
    assert progress.admits(delta(3, 0, finish="stop"), "w")
    assert not progress.admits(delta(3, 0, finish="stop"), "w")
    assert not progress.admits(delta(3), "w")


@pytest.mark.parametrize(
    "last", [Failed(j="j", a="a", code=FailureCode.ENGINE_ERROR, message=""), Cancelled(j="j", a="a", usage=USAGE)]
)
def test_nothing_follows_a_terminal(last: Failed | Cancelled) -> None:
    progress = JobProgress(1)
    assert progress.admits(last, "w")
    assert progress.ended
    assert not progress.admits(started("b"), "w")
    assert not progress.admits(delta(0), "w")


def test_a_new_attempt_replaces_one_that_has_delivered_nothing_and_the_zombie_is_not_heard() -> None:
    progress = JobProgress(1)
    assert progress.admits(started("a"), "w-1")
    assert progress.admits(started("b"), "w-2")
    assert progress.worker == "w-2"
    assert not progress.admits(started("a"), "w-1")
    assert not progress.admits(delta(0, attempt="a"), "w-1")
    assert progress.admits(delta(0, attempt="b"), "w-2")


def test_a_new_attempt_after_delivery_is_a_lost_worker_and_names_the_new_one() -> None:
    progress = JobProgress(1)
    progress.admits(started("a"), "w-1")
    progress.admits(delta(0, attempt="a"), "w-1")
    with pytest.raises(WorkerLost):
        progress.admits(started("b"), "w-2")
    assert progress.worker == "w-2"


def test_only_a_start_makes_an_attempt_current() -> None:
    progress = JobProgress(1)
    progress.admits(started("a"), "w-1")
    assert not progress.admits(delta(0, attempt="b"), "w-2")
    assert not progress.admits(finished("b"), "w-2")


def test_the_reaper_closes_a_job_whatever_attempt_was_bound() -> None:
    progress = JobProgress(1)
    progress.admits(started(), "w")
    progress.admits(delta(0), "w")
    failed = Failed(j="j", a="reaped", code=FailureCode.FAILED_REPEATEDLY, message="given up")
    assert not progress.admits(failed, "some other worker")
    assert progress.admits(failed, REAPER)
    assert progress.ended
