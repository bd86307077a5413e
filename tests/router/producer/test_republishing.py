"""Silent attempts are replaced, jobs that no attempt starts are published again, and both have limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router import control_targets
from router.messages import (
    REAPER,
    AttemptState,
    Resume,
    ResumeDecision,
)
from router.model_registry import Availability
from router.producer.errors import WorkerLost
from router.producer.recovery_events import (
    FailRequest,
    JobRepublished,
    JobState,
    Republish,
    SendControl,
    TimerFired,
)
from tests.router.producer.test_recovery import TIMINGS, Recovery, dead, decisions, delta, pings, running


def test_a_silent_attempt_is_pinged_then_replaced() -> None:
    job = running(tokens=1)
    assert job.watch(after=TIMINGS.ping_after - 0.1) == []
    assert pings(job.watch(after=0.2)) == [control_targets.worker("w-1")]
    assert job.watch(after=TIMINGS.give_up_after)[-1] == Republish(1)
    job.republished(1)
    assert Republish(2) not in job.watch(after=0.1), "a worker may be about to take the first copy"
    assert Republish(2) in job.watch(after=TIMINGS.pickup_timeout)


def test_silence_while_the_broker_is_away_is_not_the_workers() -> None:
    job = running(tokens=1)
    job.broker.unusable_at = job.now + TIMINGS.give_up_after
    assert job.watch(after=TIMINGS.give_up_after + 1) == []


def test_an_attempt_is_pinged_once_the_broker_was_lost() -> None:
    job = running(tokens=1)
    job.broker.lost_at = job.now + 1
    assert pings(job.watch(after=2)) == [control_targets.worker("w-1")]


def test_a_job_that_no_attempt_starts_is_published_again_if_a_worker_has_capacity() -> None:
    job = Recovery()
    assert job.watch(after=100) == []
    assert job.watch(after=0, availability=Availability.FREE) == [Republish(1)]
    assert job.watch(after=0, availability=Availability.FREE) == [], "publishing"
    job.receive(JobRepublished(1, confirmed=False), job.now)
    assert job.watch(after=0, availability=Availability.FREE) == [Republish(2)], "a failed publish doesn't count"


def test_a_job_is_published_again_once_after_each_absence_of_the_broker() -> None:
    job = Recovery()
    job.broker.lost_at = job.now + 1
    assert job.watch(after=TIMINGS.start_timeout) == []
    assert job.watch(after=1.1) == [Republish(1)]
    job.republished(1)
    assert job.watch(after=100) == []


def test_republishing_ends_when_it_brings_no_progress() -> None:
    job = running(tokens=1, timings=replace(TIMINGS, republish_limit=2))
    for number in (1, 2):
        assert Republish(number) in job.watch(after=100, availability=Availability.FREE)
        job.republished(number)
    (failed,) = [each for each in job.watch(after=100, availability=Availability.FREE) if isinstance(each, FailRequest)]
    assert isinstance(failed.error, WorkerLost)
    assert job.accepts(delta(1))
    assert Republish(3) in job.watch(after=100)


@pytest.mark.parametrize(
    ("availability", "copies"), [(Availability.NONE, 1), (Availability.LOADING, 1), (Availability.FULL, 6)]
)
def test_a_job_waits_for_workers_that_load_or_are_full(availability: Availability, copies: int) -> None:
    job = running(tokens=1)
    for _ in range(60):
        for command in job.watch(after=TIMINGS.give_up_after, availability=availability):
            assert not isinstance(command, FailRequest)
            if isinstance(command, Republish):
                job.republished(command.copy_number)
    assert (job.copies.newest, job.state) == (copies, JobState.WAITING)
    assert Republish(copies + 1) in job.watch(after=0, availability=Availability.FREE)
    assert decisions(job.request("b", "w-2", copy_number=copies)) == []
    job.receive(TimerFired(), job.now + 1)
    assert (job.attempt_id, job.state) == ("b", JobState.RUNNING)


def test_an_attempt_that_is_heard_again_waits_no_longer() -> None:
    job = running(tokens=1)
    job.watch(after=100, availability=Availability.LOADING)
    job.republished(1)
    job.watch(after=100, availability=Availability.LOADING)
    assert job.state is JobState.WAITING
    assert job.accepts(delta(1))
    assert job.state is JobState.RUNNING
    job.watch(after=100, availability=Availability.LOADING)
    assert job.state is JobState.RUNNING, "the answer has grown since: another copy is published"


def test_workers_that_take_the_job_and_vanish_use_up_the_limit_while_others_load() -> None:
    job = running(tokens=1, timings=replace(TIMINGS, republish_limit=3, poison_after_crashes=100))
    for number in range(1, 4):
        assert Republish(number) in job.watch(after=100, availability=Availability.LOADING)
        job.republished(number)
        job.request(f"b{number}", f"w-{number + 1}", copy_number=number)
        job.now += 10
        job.receive(TimerFired(), job.now)
    assert any(isinstance(each, FailRequest) for each in job.watch(after=100, availability=Availability.LOADING))


def test_copies_before_a_hand_over_were_not_futile() -> None:
    job = running(tokens=1, timings=replace(TIMINGS, republish_limit=1))
    for number in range(1, 30):
        job.report(AttemptState.HANDED_OVER, attempt=job.attempt_id or "")
        often = TIMINGS.republish_after_deliveries
        assert Republish(number) in job.request(f"b{number}", "w-2", delivery_count=often, copy_number=number - 1)
        job.republished(number)


def test_a_begun_job_returns_from_a_worker_that_cannot_continue_it() -> None:
    job = running(tokens=1, timings=replace(TIMINGS, republish_limit=2))
    job.report(AttemptState.LOST)
    job.republished(1)
    for number in range(1, 30):
        commands = job.request(f"proxy-{number}", "proxy", delivery_count=4, copy_number=number, continues=False)
        assert decisions(commands) == [(control_targets.worker("proxy"), ResumeDecision.RETURN)]
        assert Republish(number + 1) in commands
        job.republished(number + 1)
        assert job.attempt_id == "a"
    job.request("proxy-30", "proxy", copy_number=30, continues=False)
    assert job.get(dead(copy_number=30), REAPER) == [Republish(31)], "a worker handed it back"
    assert not job.ended
    assert decisions(job.request("b", "w-2", copy_number=31)) == [(control_targets.worker("w-2"), ResumeDecision.START)]


@pytest.mark.parametrize("availability", [Availability.NONE, Availability.LOADING, Availability.FULL])
def test_a_returned_copy_waits_for_a_worker_that_continues_the_job(availability: Availability) -> None:
    """A proxy takes the copy again and again while the only worker that can continue it loads."""
    job = running(tokens=1)
    assert Republish(1) in job.watch(after=100, availability=availability)
    job.republished(1)
    for number in range(1, 30):
        job.request(f"proxy-{number}", "proxy", copy_number=1, continues=False)
        job.receive(TimerFired(), job.now + 1)
        commands = job.watch(after=5, availability=availability)
        assert not [each for each in commands if isinstance(each, Republish | FailRequest)]
    assert job.state is JobState.WAITING
    assert Republish(2) in job.watch(after=0, availability=Availability.FREE)


def test_further_candidates_do_not_extend_the_time_in_which_the_worker_must_report() -> None:
    job = running(tokens=1)
    for number in range(20):
        job.now += TIMINGS.resume_timeout / 2
        job.receive(TimerFired(), job.now)
        job.request(f"b{number}", f"w-{number + 2}")
    assert (job.attempt_id or "a") != "a"


def test_a_job_that_has_not_begun_starts_at_a_worker_that_continues_none() -> None:
    job = running()
    job.report(AttemptState.LOST)
    assert decisions(job.request("b", "proxy", copy_number=1, continues=False)) == [
        (control_targets.worker("proxy"), ResumeDecision.START)
    ]


def test_an_often_returned_message_is_replaced_before_the_brokers_limit() -> None:
    job = running(tokens=1)
    often = TIMINGS.republish_after_deliveries
    assert Republish(1) not in job.request("b", "w-2", delivery_count=often - 1)
    assert job.request("c", "w-3", delivery_count=often)[0] == Republish(1)


def test_the_reaper_ends_a_job_that_made_no_progress() -> None:
    job = running()
    assert not job.accepts(dead(), "some other worker")
    assert job.accepts(dead(), REAPER)
    assert job.ended


def test_a_dead_letter_of_an_older_copy_or_of_a_job_with_progress_ends_nothing() -> None:
    job = running()
    job.watch(after=100)
    job.republished(1)
    assert job.get(dead(), REAPER) == []
    assert job.accepts(delta(0))
    assert job.get(dead(copy_number=1), REAPER) == [Republish(2)]
    job.republished(2)
    assert job.accepts(dead(copy_number=2), REAPER)


def test_a_dead_letter_lets_the_waiting_worker_try_again() -> None:
    job = running(tokens=1)
    job.request("b", "w-2")
    job.report(AttemptState.ALIVE)
    assert pings(job.get(dead(), REAPER)) == [control_targets.worker("w-1")]
    assert job.state is JobState.CONTESTED


# The end


def test_crashes_in_a_row_isolate_the_job_and_then_fail_it() -> None:
    job, answers = Recovery(), []
    for number in range(4):
        (answer,) = [
            each.control
            for each in job.request(f"a{number}", f"w-{number}", copy_number=number)
            if isinstance(each, SendControl) and isinstance(each.control, Resume)
        ] or [
            each.control
            for each in job.receive(TimerFired(), job.now + 10)
            if isinstance(each, SendControl) and isinstance(each.control, Resume)
        ]
        answers.append((answer.crashes, answer.solo, answer.decision))
        job.request(f"a{number}", f"w-{number}", copy_number=number, crashes=answer.crashes)
        job.now += 20
    assert answers == [
        (1, False, ResumeDecision.START),
        (2, True, ResumeDecision.START),
        (3, True, ResumeDecision.FAIL),
        (4, True, ResumeDecision.FAIL),
    ]


def test_an_attempt_that_made_progress_begins_a_new_row_of_crashes() -> None:
    job = running()
    for number, tokens in enumerate((0, 1, 0), start=1):
        if tokens:
            assert job.accepts(delta(job.output.tokens, tokens, attempt=job.attempt_id or ""), job.worker_id or "")
        job.request(f"b{number}", f"w-{number + 1}")
        job.now += 10
        job.receive(TimerFired(), job.now)
        job.request(f"b{number}", f"w-{number + 1}", crashes=job.crashes)
    assert job.crashes == 2


def test_an_attempt_that_was_not_permitted_to_run_yet_did_not_crash_its_worker() -> None:
    job = running()
    for number in range(1, 5):  # each waits for a slot when its worker dies
        job.request(f"b{number}", f"w-{number + 1}")
        job.now += 10
        job.receive(TimerFired(), job.now)
        assert (job.attempt_id, job.crashes) == (f"b{number}", 1)


def test_a_crash_counts_even_if_the_gateways_connection_was_lost_meanwhile() -> None:
    job = running()
    job.broker.lost_at = job.now + 1
    job.now += 2
    job.request("b", "w-2")
    job.now += 10
    job.receive(TimerFired(), job.now)
    assert (job.attempt_id, job.crashes) == ("b", 1)


def test_a_worker_that_has_lost_the_attempt_in_a_restart_counts_as_crashed() -> None:
    job = running()
    job.request("b", "w-2")
    job.report(AttemptState.LOST)
    assert (job.attempt_id, job.crashes) == ("b", 1)


def test_a_job_that_was_handed_over_did_not_crash_its_worker() -> None:
    job = running()
    job.report(AttemptState.HANDED_OVER, crashes=1)
    job.request("b", "w-2")
    assert (job.attempt_id, job.crashes) == ("b", 1), "its engine crashed before, and it was handed over afterwards"


def test_a_worker_that_has_forgotten_the_attempt_that_it_handed_over_did_not_crash() -> None:
    job = running()
    job.report(AttemptState.HANDED_OVER)
    job.report(AttemptState.LOST)
    job.request("b", "w-2")
    assert (job.attempt_id, job.crashes) == ("b", 0)


def test_an_engine_gets_a_job_again_after_two_crashes_and_not_after_three() -> None:
    job, answers = running(), []
    for crashes in (1, 1, 2, 3):
        (answer,) = [each.control for each in job.request("a", "w-1", crashes=crashes) if isinstance(each, SendControl)]
        assert isinstance(answer, Resume)
        answers.append((answer.crashes, answer.solo, answer.decision))
        assert job.state is JobState.RUNNING
    assert answers == [
        (1, False, ResumeDecision.START),
        (1, False, ResumeDecision.START),
        (2, True, ResumeDecision.START),
        (3, True, ResumeDecision.FAIL),
    ]


def test_a_crash_that_its_worker_could_not_report_counts_with_the_workers_death() -> None:
    """The engine crashed once, its worker was killed before the broker was back: two crashes at most, one at least."""
    job = Recovery()
    job.request("b", "w-2", delivery_count=1)
    assert job.crashes == 1, "the first attempt may have begun, and its first reply may be lost"
    job.request("b", "w-2", delivery_count=1, crashes=2)
    job.request("c", "w-3", delivery_count=2)
    job.receive(TimerFired(), job.now + 10)
    assert job.crashes == 3


def test_progress_clears_the_crashes() -> None:
    job = running()
    job.request("a", "w-1", crashes=2)
    assert job.accepts(delta(0))
    assert job.crashes == 0


# Silence and copies
