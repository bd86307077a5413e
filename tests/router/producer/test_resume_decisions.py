"""Replies to jobs that are not open: dropped, and their workers stopped."""

from __future__ import annotations

from router import control_targets
from router.messages import Delta, Finished, Resume, ResumeDecision, ResumeRequest, Usage
from router.producer import recovery_events as events
from router.producer.resume_decisions import dismiss


def test_a_reply_to_no_open_job_is_dropped_and_its_attempt_stopped() -> None:
    delta = Delta(job_id="j", attempt_id="a", start=0, token_ids=[1, 2])
    stop = events.StopAttempt("w-1", "j", "a", superseded=False)
    assert dismiss("w-1", delta) == [events.Drop(known=False, tokens=2), stop]
    finished = Finished(job_id="j", attempt_id="a", usage=Usage(prompt_tokens=1))
    assert dismiss("w-1", finished) == [events.Drop(known=False)]


def test_a_job_that_is_not_open_does_not_run_again() -> None:
    gone = Resume(job="j", attempt="a", decision=ResumeDecision.GONE)
    request = ResumeRequest(job_id="j", attempt_id="a")
    assert dismiss("w-1", request) == [events.SendControl(control_targets.worker("w-1"), gone)]
