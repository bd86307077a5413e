"""The recovery of one job: which attempt is authoritative, what is accepted of it, when the job is published again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.jobs.prompt_echo import EchoedPrompt
from router import control_targets
from router.messages import (
    AttemptReport,
    AttemptState,
    Cancel,
    Cancelled,
    ChatPrompt,
    Delta,
    Failed,
    FailureCode,
    Finished,
    Ping,
    PromptEcho,
    PromptLogprobs,
    Reply,
    Resume,
    ResumeDecision,
    ResumeRequest,
    SamplingParams,
    Started,
    TextOptions,
    TokenAlternative,
    TokenLogprob,
    Usage,
)
from router.model_registry import Availability
from router.producer import recovery_events as events
from router.producer.errors import NotContinuable, RepliesLost
from router.producer.recovery import JobRecovery
from router.timings import Timings
from tests.fakes.jobs import make_job

USAGE = Usage(prompt_tokens=1)
TIMINGS = Timings()


class Recovery(JobRecovery):
    """A recovery with a clock that tests turn."""

    def __init__(
        self,
        choices: int = 1,
        *,
        timings: Timings = TIMINGS,
        echo: bool = False,
        scores: bool = False,
        delivered: Sequence[list[int]] = (),
    ) -> None:
        self.broker = events.BrokerHealth()
        self.now = 100.0
        sampling = SamplingParams(seed=1, prompt_logprobs=0 if scores else None)
        job = make_job(
            deadline=1e9,
            n=choices,
            prompt=ChatPrompt(messages=[]),
            sampling=sampling,
            text=TextOptions(echo=echo),
            delivered=list(delivered),
        )
        super().__init__(job, self.broker, timings, self.now)
        self.receive(events.JobQueued(), self.now)

    def get(self, reply: Reply, worker_id: str = "w-1") -> list[events.Command]:
        """What follows from a reply."""
        return self.receive(events.ReplyReceived(worker_id, reply), self.now)

    def accepts(self, reply: Reply, worker_id: str = "w-1") -> bool:
        return events.Deliver(reply) in self.get(reply, worker_id)

    def request(self, attempt: str, worker_id: str, **fields: Any) -> list[events.Command]:
        """Have a worker request to resume."""
        return self.get(ResumeRequest(job_id="j", attempt_id=attempt, **fields), worker_id)

    def report(self, state: AttemptState, attempt: str = "a", crashes: int = 0) -> list[events.Command]:
        return self.get(AttemptReport(job_id="j", attempt_id=attempt, state=state, crashes=crashes))

    def watch(self, *, after: float, availability: Availability = Availability.FULL) -> list[events.Command]:
        self.now += after
        return self.receive(events.WatchTick(availability), self.now)

    def republished(self, copy_number: int) -> None:
        self.receive(events.JobRepublished(copy_number, confirmed=True), self.now)


def decisions(commands: list[events.Command]) -> list[tuple[str, ResumeDecision]]:
    """Return the resume decisions and their targets."""
    return [
        (each.target, each.control.decision)
        for each in commands
        if isinstance(each, events.SendControl) and isinstance(each.control, Resume)
    ]


def pings(commands: list[events.Command]) -> list[str]:
    return [each.target for each in commands if isinstance(each, events.SendControl) and isinstance(each.control, Ping)]


def started(attempt: str = "a") -> Started:
    return Started(job_id="j", attempt_id=attempt, worker_id="w", prompt_tokens=1)


def delta(start: int, count: int = 1, *, choice: int = 0, attempt: str = "a", finish: str | None = None) -> Delta:
    ids = list(range(count))
    return Delta(job_id="j", attempt_id=attempt, choice=choice, start=start, token_ids=ids, finish_reason=finish)  # type: ignore[arg-type]


def finished(attempt: str = "a") -> Finished:
    return Finished(job_id="j", attempt_id=attempt, usage=USAGE)


def dead(copy_number: int = 0) -> Failed:
    """The reaper's reply to a dead-lettered message."""
    code = FailureCode.FAILED_REPEATEDLY
    return Failed(job_id="j", attempt_id="reaped", code=code, message="given up", copy_number=copy_number)


def running(tokens: int = 0, **fields: Any) -> Recovery:
    """A job that worker w-1 runs as attempt a."""
    job = Recovery(**fields)
    assert job.accepts(started())
    if tokens:
        assert job.accepts(delta(0, tokens))
    return job


# Fences


def test_tokens_in_order_are_accepted_and_counted() -> None:
    job = Recovery(2)
    replies: list[Reply] = [
        started(),
        delta(0, 2),
        delta(0, choice=1),
        delta(2, finish="stop"),
        delta(1, choice=1, finish="length"),
    ]
    assert all(map(job.accepts, replies))
    assert job.output.tokens == 5
    assert job.state is events.JobState.RUNNING
    assert job.accepts(finished())
    assert job.state is events.JobState.ENDED


@given(st.lists(st.integers(0, 9), max_size=30))
def test_replayed_windows_change_nothing(replays: list[int]) -> None:
    job, seen = Recovery(), []
    sent = [delta(token) for token in range(10)]
    for position, reply in enumerate(sent):
        seen += [reply.start] if job.accepts(reply) else []
        assert not any(job.accepts(sent[replay]) for replay in replays if replay <= position)
    assert seen == list(range(10))


def test_a_reply_about_a_choice_that_the_job_lacks_fails_the_request() -> None:
    commands = Recovery().get(delta(0, choice=1))
    assert [type(each) for each in commands] == [events.Drop, events.FailRequest]
    assert isinstance(commands[1].error, RepliesLost)  # type: ignore[union-attr]


def test_a_finish_before_the_last_delta_reveals_a_gap() -> None:
    job = Recovery(2)
    job.accepts(delta(0, finish="stop"))
    assert pings(job.get(finished())) == [control_targets.worker("w-1")]
    assert not job.ended


@pytest.mark.parametrize(
    "last",
    [
        Failed(job_id="j", attempt_id="a", code=FailureCode.ENGINE_ERROR, message=""),
        Cancelled(job_id="j", attempt_id="a", usage=USAGE),
    ],
)
def test_no_reply_is_accepted_after_a_terminal_one(last: Failed | Cancelled) -> None:
    job = Recovery()
    assert job.accepts(last)
    assert job.state is events.JobState.ENDED
    assert job.get(started("b")) == [events.Drop()]
    assert job.get(delta(0)) == [events.Drop()]


def test_a_new_attempt_replaces_one_that_delivered_nothing_and_the_old_one_is_stopped() -> None:
    job = Recovery()
    assert job.accepts(started("a"), "w-1")
    assert job.accepts(started("b"), "w-2")
    assert job.worker_id == "w-2"
    assert job.get(delta(0, attempt="a"), "w-1") == [events.Drop(), events.StopAttempt("w-1", "j", "a")]
    assert job.accepts(delta(0, attempt="b"), "w-2")


def test_an_attempt_that_starts_over_after_output_was_delivered_is_stopped() -> None:
    job = running(tokens=1)
    assert job.get(started("b"), "w-2") == [events.Drop(), events.StopAttempt("w-2", "j", "b")]
    assert job.get(delta(0, attempt="b"), "w-2") == [events.Drop(), events.StopAttempt("w-2", "j", "b")]
    assert job.worker_id == "w-1"
    assert job.accepts(delta(1))


def test_only_a_start_makes_an_attempt_authoritative() -> None:
    job = running()
    assert not job.accepts(delta(0, attempt="b"), "w-2")
    assert job.get(finished("b"), "w-2") == [events.Drop()], "a terminal reply needs no stop"


# Gaps


def test_a_gap_is_requested_again_until_it_closes() -> None:
    job = running(tokens=1)
    wake = events.WakeAt(job.now + TIMINGS.gap_retry_interval)
    commands = job.get(delta(2))
    assert (commands[0], pings(commands), commands[-1]) == (events.Drop(), [control_targets.worker("w-1")], wake)
    assert job.get(delta(3)) == [events.Drop()], "it was requested already"
    job.now = wake.time
    assert pings(job.receive(events.TimerFired(), job.now)) == [control_targets.worker("w-1")]
    assert [job.accepts(delta(position)) for position in (1, 2)] == [True, True]
    job.now += TIMINGS.gap_retry_interval
    assert job.receive(events.TimerFired(), job.now) == []


def test_a_gap_that_stays_fails_the_request_but_not_while_the_broker_is_away() -> None:
    job = running(tokens=1, timings=replace(TIMINGS, gap_retries=2))
    job.broker.up = False
    job.get(delta(2))
    for _ in range(5):
        job.now += 1
        assert pings(job.receive(events.TimerFired(), job.now))
    job.broker.up = True
    outcomes = []
    for _ in range(3):
        job.now += 1
        outcomes.append([type(each) for each in job.receive(events.TimerFired(), job.now)])
    assert outcomes == [[events.SendControl, events.WakeAt], [events.SendControl, events.WakeAt], [events.FailRequest]]


# Resuming


def test_a_new_worker_resumes_at_once_if_the_attempt_was_handed_over() -> None:
    job = running(tokens=3)
    job.report(AttemptState.HANDED_OVER)
    assert job.state is events.JobState.ORPHANED
    commands = job.request("b", "w-2")
    assert commands[0] == events.AttemptResumed("w-2", "b", "w-1", 3, 0)
    answer = commands[1].control  # type: ignore[union-attr]
    assert isinstance(answer, Resume)
    assert (answer.decision, answer.delivered, answer.crashes) == (ResumeDecision.START, [[0, 1, 2]], 0)
    assert job.get(delta(3), "w-1") == [events.Drop(), events.StopAttempt("w-1", "j", "a")]
    assert job.accepts(delta(3, attempt="b"), "w-2")


def test_a_live_attempt_keeps_the_job_and_the_other_worker_stands_by() -> None:
    job = running(tokens=1)
    commands = job.request("b", "w-2")
    assert job.state is events.JobState.CONTESTED
    assert [each.mandatory for each in commands if isinstance(each, events.SendControl)] == [True]
    assert decisions(job.report(AttemptState.ALIVE)) == [(control_targets.worker("w-2"), ResumeDecision.WAIT)]
    assert job.state is events.JobState.STANDBY
    job.now += 100
    assert job.receive(events.TimerFired(), job.now) == []
    assert decisions(job.report(AttemptState.LOST)) == [(control_targets.worker("w-2"), ResumeDecision.START)]
    assert (job.state, job.worker_id) == (events.JobState.RUNNING, "w-2")


def test_a_silent_worker_loses_the_job_after_the_timeout() -> None:
    job = running(tokens=1)
    (wake,) = [each for each in job.request("b", "w-2") if isinstance(each, events.WakeAt)]
    assert wake.time == job.now + TIMINGS.resume_timeout
    assert job.receive(events.TimerFired(), wake.time - 0.01) == [wake]
    assert decisions(job.receive(events.TimerFired(), wake.time)) == [
        (control_targets.worker("w-2"), ResumeDecision.START)
    ]


def test_after_a_reconnection_a_worker_has_longer_to_answer() -> None:
    job = running(tokens=1)
    job.broker.lost_at = job.now - 1
    (wake,) = [each for each in job.request("b", "w-2") if isinstance(each, events.WakeAt)]
    assert wake.time == job.now + TIMINGS.reconnect_resume_timeout
    assert job.receive(events.WorkerUnreachable(control_targets.worker("w-1")), job.now) == []


def test_a_worker_whose_queue_is_gone_loses_the_job_at_once() -> None:
    job = running(tokens=1)
    job.request("b", "w-2")
    assert job.receive(events.WorkerUnreachable(control_targets.worker("w-3")), job.now) == []
    commands = job.receive(events.WorkerUnreachable(control_targets.worker("w-1")), job.now)
    assert decisions(commands) == [(control_targets.worker("w-2"), ResumeDecision.START)]


def test_a_job_that_is_over_is_gone_for_those_who_request_it() -> None:
    gone = [(control_targets.worker("w-2"), ResumeDecision.GONE)]
    ended, closed, replaced = running(), running(), running()
    ended.accepts(finished())
    ended.accepts(delta(0, finish="stop"))
    ended.accepts(finished())
    closed.receive(events.RequestClosed(cancel=False), closed.now)
    replaced.accepts(started("c"), "w-3")
    assert decisions(ended.request("b", "w-2")) == gone
    assert decisions(closed.request("b", "w-2")) == gone
    assert decisions(replaced.request("a", "w-2")) == gone, "its attempt was superseded"


def test_an_older_copy_is_gone_once_a_newer_one_runs() -> None:
    job = running(tokens=1)
    job.report(AttemptState.HANDED_OVER)
    job.request("b", "w-2", copy_number=1)
    assert job.copy_number == 1
    assert decisions(job.request("c", "w-3")) == [(control_targets.worker("w-3"), ResumeDecision.GONE)]


def test_text_without_ids_is_continued_by_workers_that_tokenise_it() -> None:
    job = running()
    job.accepts(Delta(job_id="j", attempt_id="a", start=0, token_ids=[], untokenised_positions=2, text="text"))
    job.report(AttemptState.HANDED_OVER)
    _, answer = job.request("b", "w-2")
    assert isinstance(answer, events.SendControl)
    assert isinstance(answer.control, Resume)
    assert (answer.control.texts, answer.control.text_positions) == (["text"], [2])
    assert job.accepts(delta(2, attempt="b"), "w-2")


def test_reasoning_without_ids_can_not_be_continued() -> None:
    job = running()
    job.accepts(Delta(job_id="j", attempt_id="a", start=0, token_ids=[], untokenised_positions=1, reasoning="hm"))
    job.report(AttemptState.HANDED_OVER)
    failed, answer = job.request("b", "w-2")
    assert isinstance(failed, events.FailRequest)
    assert isinstance(failed.error, NotContinuable)
    assert decisions([answer]) == [(control_targets.worker("w-2"), ResumeDecision.GONE)]


def test_closing_cancels_a_job_where_it_is() -> None:
    queued, at_worker, ended = Recovery(), running(), running()
    ended.accepts(delta(0, finish="stop"))
    ended.accepts(finished())
    cancel = Cancel(job="j", reply_to=queued.job.reply_to)
    assert queued.receive(events.RequestClosed(cancel=True), 0) == [
        events.SendControl(control_targets.model("m"), cancel)
    ]
    assert at_worker.receive(events.RequestClosed(cancel=True), 0) == [
        events.SendControl(control_targets.worker("w-1"), cancel)
    ]
    assert ended.receive(events.RequestClosed(cancel=True), 0) == []
    assert queued.get(started()) == [events.Drop()]
    assert queued.watch(after=1000, availability=Availability.FREE) == []


def test_another_attempt_may_cut_the_prompt_differently() -> None:
    job, prompt = Recovery(echo=True, scores=True), EchoedPrompt()
    scores = [TokenLogprob(TokenAlternative(number, "", -1.0), []) for number in range(1, 6)]
    replies: list[PromptEcho | PromptLogprobs] = [
        PromptEcho(job_id="j", attempt_id="a", token_ids=list(range(6)), text="prompt"),
        PromptLogprobs(job_id="j", attempt_id="a", start=1, logprobs=scores[:3], ranks=[1, 2, 3]),
        PromptEcho(job_id="j", attempt_id="b", token_ids=list(range(6)), text="prompt"),
        PromptLogprobs(job_id="j", attempt_id="b", start=1, logprobs=scores[:2], ranks=[1, 2]),
        PromptLogprobs(job_id="j", attempt_id="b", start=3, logprobs=scores[2:], ranks=[3, 4, 5]),
    ]
    job.accepts(started("a"))
    for reply in replies:
        if reply.attempt_id != job.attempt_id:
            job.report(AttemptState.HANDED_OVER)
            job.request(reply.attempt_id, "w-2")
        if job.accepts(reply, job.worker_id or ""):
            prompt.take(reply)
    assert (prompt.logprobs, prompt.ranks) == (scores, [1, 2, 3, 4, 5])
    assert job.accepts(delta(0, attempt="b"), "w-2")
    assert math.isinf(events.BrokerHealth().disturbed_at)


def test_a_job_that_has_ended_is_not_published_again_when_its_worker_has_forgotten_it() -> None:
    recovery = Recovery()
    recovery.get(Started(job_id="j", attempt_id="a", worker_id="w-1", prompt_tokens=1))
    assert recovery.accepts(Failed(job_id="j", attempt_id="a", code=FailureCode.ENGINE_ERROR, message="m", usage=USAGE))
    assert recovery.report(AttemptState.LOST) == []


# Jobs that are opened with output


def test_the_first_attempt_at_a_job_with_output_continues_without_being_asked() -> None:
    job = Recovery(delivered=[[1, 2]])
    assert job.accepts(started())
    assert job.accepts(delta(2))
    assert not job.accepts(started("b"), "w-2"), "the answer has grown, so another one has to ask"


def test_another_attempt_at_a_job_with_output_may_start_while_the_answer_has_not_grown() -> None:
    job = Recovery(delivered=[[1, 2]])
    assert job.accepts(started())
    assert job.accepts(started("b"), "w-2")
    assert not job.accepts(delta(2), "w-1")
    assert job.accepts(delta(2, attempt="b"), "w-2")


def test_a_job_with_output_is_returned_by_workers_that_can_not_continue_it() -> None:
    job = Recovery(delivered=[[1, 2]])
    answers = job.request("a", "proxy-1", continues=False)
    assert decisions(answers) == [(control_targets.worker("proxy-1"), ResumeDecision.RETURN)]
    answers = job.request("b", "w-2")
    assert decisions(answers) == [(control_targets.worker("w-2"), ResumeDecision.START)]
    [resume] = [each.control for each in answers if isinstance(each, events.SendControl)]
    assert isinstance(resume, Resume)
    assert resume.delivered == [[1, 2]]
