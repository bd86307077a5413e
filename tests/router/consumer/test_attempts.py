"""The table of attempts: child jobs that two assistants opened with one id are two jobs."""

from __future__ import annotations

from typing import cast

import pytest

from router.consumer.attempts import AttemptTable, RecentJobIds, SteppedAttempt
from router.messages import Resume, ResumeDecision, Step, StepState, Usage, UsagePart
from router.transport.base import Delivery
from tests.fakes.jobs import make_job
from tests.router.consumer.test_admission import NO_DELIVERY, Taken


def taken(reply_to: str) -> Taken:
    return Taken(make_job(id="p-a", reply_to=reply_to, deadline=0), NO_DELIVERY)


def test_attempts_of_one_id_are_told_apart_by_where_their_replies_go() -> None:
    table: AttemptTable[Taken] = AttemptTable()
    first, second = taken("assistant-1"), taken("assistant-2")
    table.add(first)
    table.add(second)
    assert table.of_job("p-a", "assistant-1") is first
    assert table.of_job("p-a", "assistant-2") is second
    assert table.of_job("p-a") is second
    assert table.of_job("p-a", "assistant-3") is None
    table.remove(second)
    assert table.of_job("p-a") is first
    table.remove(first)
    table.remove(first)
    assert table.of_job("p-a") is None
    assert len(table) == 0


def test_a_cancel_of_one_assistants_child_leaves_the_others() -> None:
    cancelled = RecentJobIds()
    cancelled.add("p-a", "assistant-1")
    assert taken("assistant-1").job in cancelled
    assert taken("assistant-2").job not in cancelled
    cancelled.add("p-a")
    assert taken("assistant-2").job in cancelled


class FirstDelivery:
    """A message that was delivered for the first time."""

    redelivered, delivery_count = False, 0


@pytest.mark.parametrize(
    ("delivered", "continues", "asks"), [([], False, False), ([[1]], True, False), ([[1]], False, True)]
)
def test_a_job_with_output_waits_for_a_decision_at_a_worker_that_can_not_continue_it(
    delivered: list[list[int]], continues: bool, asks: bool
) -> None:
    class AtProvider(Taken):
        pass

    AtProvider.continues = continues  # type: ignore[assignment,method-assign]
    attempt = AtProvider(make_job(delivered=delivered), cast(Delivery, FirstDelivery()))
    assert attempt.may_resume is asks


class Stepped(Taken, SteppedAttempt):
    """An attempt with steps."""


def step(number: int, state: StepState = StepState.DONE) -> Step:
    part = UsagePart(model="m", usage=Usage(prompt_tokens=number))
    return Step(number=number, kind="search", name="dvts", state=state, parts=[part] if state.ended else [])


def test_steps_take_positions_before_the_answer_and_are_billed_once_they_have_ended() -> None:
    attempt = Stepped(make_job(), cast(Delivery, FirstDelivery()))
    resume = Resume(job="j", attempt="a", decision=ResumeDecision.START, steps=[step(0)], delivered=[[7, 8]])
    attempt.continue_after(resume)
    assert (attempt.position, attempt.parts) == (3, step(0).parts)
    attempt.tokens = 0
    running, ended = attempt.release_step(step(1, StepState.RUNNING)), attempt.release_step(step(1))
    assert [(each.start, each.positions) for each in (running, ended)] == [(1, 0), (1, 1)]
    assert attempt.parts == [*step(0).parts, *step(1).parts]
