"""The three fences of a job: attempt, position, end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RepliesLost
from gateway.jobs.echoed_prompt import EchoedPrompt
from gateway.jobs.job_progress import Admitted, JobProgress
from router.messages import (
    REAPER,
    Cancelled,
    Delta,
    Failed,
    FailureCode,
    Finished,
    PromptEcho,
    PromptLogprobs,
    Reply,
    Started,
    TokenAlternative,
    TokenLogprob,
    Usage,
)

USAGE = Usage(prompt_tokens=1)


def started(attempt: str = "a") -> Started:
    return Started(job_id="j", attempt_id=attempt, worker_id="w", prompt_tokens=1)


def delta(start: int, count: int = 1, *, choice: int = 0, attempt: str = "a", finish: str | None = None) -> Delta:
    return Delta(
        job_id="j", attempt_id=attempt, choice=choice, start=start, token_ids=list(range(count)), finish_reason=finish
    )  # type: ignore[arg-type]


def finished(attempt: str = "a") -> Finished:
    return Finished(job_id="j", attempt_id=attempt, usage=USAGE)


def admits(progress: JobProgress, reply: Reply, worker: str = "w") -> bool:
    return progress.admit(reply, worker) is Admitted.NEWS


def test_tokens_in_order_are_admitted_and_counted() -> None:
    progress = JobProgress(2)
    replies = [started(), delta(0, 2), delta(0, choice=1), delta(2, finish="stop"), delta(1, choice=1, finish="length")]
    assert all(admits(progress, reply, "w") for reply in replies)
    assert progress.tokens == 5
    assert not progress.ended
    assert admits(progress, finished(), "w")
    assert progress.ended


@given(st.lists(st.integers(0, 9), max_size=30))
def test_replayed_windows_change_nothing(replays: list[int]) -> None:
    progress = JobProgress(1)
    seen = []
    sent = [delta(token) for token in range(10)]
    for position, reply in enumerate(sent):
        seen += [reply.start] if admits(progress, reply, "w") else []
        for replay in replays:
            if replay <= position:
                assert not admits(progress, sent[replay], "w")
    assert seen == list(range(10))


def test_text_without_ids_has_positions_too() -> None:
    progress = JobProgress(1)
    pieces = [
        Delta(job_id="j", attempt_id="a", start=start, token_ids=[], untokenised_positions=count, text="text")
        for start, count in ((0, 2), (2, 1))
    ]
    assert [admits(progress, piece, "w") for piece in (*pieces, *pieces)] == [True, True, False, False]
    assert progress.tokens == 3
    assert (
        progress.admit(
            Delta(job_id="j", attempt_id="a", start=4, token_ids=[], untokenised_positions=1, text="gap"), "w"
        )
        is Admitted.GAP
    )


def test_what_follows_a_gap_is_dropped_until_the_gap_is_closed() -> None:
    progress = JobProgress(1)
    admits(progress, delta(0), "w")
    assert progress.admit(delta(2), "w") is Admitted.GAP
    assert progress.have == [1]
    assert [admits(progress, delta(position), "w") for position in (1, 2)] == [True, True]


def test_crashes_in_a_row_are_counted_unless_the_job_gets_further() -> None:
    progress, counts = JobProgress(1), []
    for attempt, tokens in (("a", 0), ("b", 1), ("c", 0), ("d", 0)):
        progress.bind(attempt, "w")
        if tokens:
            progress.admit(delta(progress.tokens, tokens, attempt=attempt), "w")
        progress.crashed()
        counts.append(progress.crashes)
    assert counts == [1, 1, 2, 3]


def test_a_choice_that_was_not_asked_for_is_an_error() -> None:
    with pytest.raises(RepliesLost):
        admits(JobProgress(1), delta(0, choice=1), "w")


def test_the_end_without_a_choices_end_follows_a_gap() -> None:
    progress = JobProgress(2)
    admits(progress, delta(0, finish="stop"), "w")
    assert progress.admit(finished(), "w") is Admitted.GAP
    assert not progress.ended


def test_a_last_delta_without_tokens_counts_once() -> None:
    progress = JobProgress(1)
    assert admits(progress, delta(0, 3), "w")
    assert admits(progress, delta(3, 0, finish="stop"), "w")
    assert not admits(progress, delta(3, 0, finish="stop"), "w")
    assert not admits(progress, delta(3), "w")


@pytest.mark.parametrize(
    "last",
    [
        Failed(job_id="j", attempt_id="a", code=FailureCode.ENGINE_ERROR, message=""),
        Cancelled(job_id="j", attempt_id="a", usage=USAGE),
    ],
)
def test_nothing_follows_a_terminal(last: Failed | Cancelled) -> None:
    progress = JobProgress(1)
    assert admits(progress, last, "w")
    assert progress.ended
    assert not admits(progress, started("b"), "w")
    assert not admits(progress, delta(0), "w")


def test_a_new_attempt_replaces_one_that_has_delivered_nothing_and_the_zombie_is_not_heard() -> None:
    progress = JobProgress(1)
    assert admits(progress, started("a"), "w-1")
    assert admits(progress, started("b"), "w-2")
    assert progress.worker == "w-2"
    assert not admits(progress, started("a"), "w-1")
    assert not admits(progress, delta(0, attempt="a"), "w-1")
    assert admits(progress, delta(0, attempt="b"), "w-2")


def test_an_attempt_that_starts_over_after_delivery_is_not_heard() -> None:
    progress = JobProgress(1)
    progress.admit(started("a"), "w-1")
    progress.admit(delta(0, attempt="a"), "w-1")
    assert progress.admit(started("b"), "w-2") is Admitted.FENCED
    assert progress.admit(delta(0, attempt="b"), "w-2") is Admitted.FENCED
    assert progress.worker == "w-1"
    assert admits(progress, delta(1, attempt="a"), "w-1")


def test_a_bound_attempt_goes_on_after_what_was_delivered() -> None:
    progress = JobProgress(2)
    progress.admit(started("a"), "w-1")
    first = Delta(job_id="j", attempt_id="a", choice=1, start=0, token_ids=[7, 8], cached_tokens=16)
    for reply in (first, delta(0, 3, attempt="a", finish="stop")):
        assert admits(progress, reply, "w-1")
    assert progress.delivered == ([[0, 1, 2], [7, 8]], [0], [], 16)
    progress.bind("b", "w-2")
    assert progress.is_superseded("a")
    assert progress.admit(delta(2, choice=1, attempt="a"), "w-1") is Admitted.FENCED
    assert progress.admit(finished("a"), "w-1") is Admitted.FENCED
    assert admits(progress, started("b"), "w-2")
    assert admits(progress, delta(2, choice=1, attempt="b", finish="length"), "w-2")
    assert admits(progress, finished("b"), "w-2")


def test_text_without_ids_can_not_be_continued() -> None:
    progress = JobProgress(1)
    assert progress.resumable
    progress.admit(Delta(job_id="j", attempt_id="a", start=0, token_ids=[], untokenised_positions=1, text="text"), "w")
    assert not progress.resumable


def test_another_attempt_may_cut_the_prompt_differently() -> None:
    progress, told = JobProgress(1, echo=True, scores=True), EchoedPrompt()
    lp = [TokenLogprob(TokenAlternative(number, "", -1.0), []) for number in range(1, 6)]
    replies = [
        PromptEcho(job_id="j", attempt_id="a", token_ids=list(range(6)), text="prompt"),
        PromptLogprobs(job_id="j", attempt_id="a", start=1, logprobs=lp[:3], ranks=[1, 2, 3]),
        PromptEcho(job_id="j", attempt_id="b", token_ids=list(range(6)), text="prompt"),
        PromptLogprobs(job_id="j", attempt_id="b", start=1, logprobs=lp[:2], ranks=[1, 2]),
        PromptLogprobs(job_id="j", attempt_id="b", start=3, logprobs=lp[2:], ranks=[3, 4, 5]),
    ]
    for reply in replies:
        if reply.attempt_id != progress.attempt:
            progress.bind(reply.attempt_id, "w")
        if admits(progress, reply):
            told.take(reply)
    assert told.logprobs == lp
    assert told.ranks == [1, 2, 3, 4, 5]
    assert admits(progress, delta(0, attempt="b"))


@given(st.data())
def test_two_attempts_whatever_is_dropped_or_repeated_make_one_run_of_tokens(data: st.DataObject) -> None:
    """The first attempt dies somewhere; the next begins after what was admitted by then, and zombies go on talking."""
    progress, seen = JobProgress(1), list[int]()

    def deliver(reply: Delta) -> None:
        if admits(progress, reply):
            seen.extend(range(reply.start, reply.start + len(reply.token_ids)))

    sent: list[Delta] = []
    for number in range(data.draw(st.integers(1, 4))):
        attempt = f"attempt-{number}"
        progress.bind(attempt, f"worker-{number}")
        at = progress.tokens
        assert [len(ids) for ids in progress.delivered.delivered] == ([at] if at else [])
        for size in data.draw(st.lists(st.integers(1, 3), max_size=6)):
            sent.append(Delta(job_id="j", attempt_id=attempt, start=at, token_ids=list(range(at, at + size))))
            at += size
            deliver(sent[-1])
            for zombie in data.draw(st.lists(st.sampled_from(sent), max_size=3)):
                deliver(zombie)
    assert seen == list(range(len(seen))) == list(range(progress.tokens))
    assert progress.delivered.delivered in ([], [seen])


def test_only_a_start_makes_an_attempt_current() -> None:
    progress = JobProgress(1)
    admits(progress, started("a"), "w-1")
    assert not admits(progress, delta(0, attempt="b"), "w-2")
    assert not admits(progress, finished("b"), "w-2")


def test_the_reaper_closes_a_job_whatever_attempt_was_bound() -> None:
    progress = JobProgress(1)
    admits(progress, started(), "w")
    admits(progress, delta(0), "w")
    failed = Failed(job_id="j", attempt_id="reaped", code=FailureCode.FAILED_REPEATEDLY, message="given up")
    assert not admits(progress, failed, "some other worker")
    assert admits(progress, failed, REAPER)
    assert progress.ended


def test_a_letter_about_an_older_copy_ends_nothing() -> None:
    progress = JobProgress(1)
    admits(progress, started(), "w")
    progress.copied(progress.next_copy())
    letter = Failed(job_id="j", attempt_id="reaped", code=FailureCode.FAILED_REPEATEDLY, message="given up")
    assert progress.admit(letter, REAPER) is Admitted.FENCED
    assert not progress.ended
    newest = Failed(
        job_id="j", attempt_id="reaped", code=FailureCode.FAILED_REPEATEDLY, message="given up", copy_number=1
    )
    assert admits(progress, newest, REAPER)


def test_copies_are_in_vain_while_the_answer_gets_no_further() -> None:
    progress = JobProgress(1)
    admits(progress, started())
    for number in (1, 2):
        progress.copied(progress.next_copy())
        assert (progress.newest_copy, progress.copied_in_vain, progress.moved_since_copy) == (number, number, False)
    admits(progress, delta(0))
    assert progress.moved_since_copy
    progress.copied(progress.next_copy())
    assert progress.copied_in_vain == 1
