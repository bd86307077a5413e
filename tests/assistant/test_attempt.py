"""Positions, usage and bill of an attempt, also of one that continues another's answer."""

from __future__ import annotations

import hashlib
from typing import Any
from unittest.mock import Mock

from assistant.abilities import tool_part
from assistant.attempt import AssistantAttempt
from router.messages import Delta, Finished, Resume, ResumeDecision, Step, StepState, Usage
from router.transport.base import Delivery
from tests.fakes.jobs import make_job

ROUTE = Step(number=0, kind="route", name="math", state=StepState.DONE)
TOOL = Step(number=1, kind="tool", name="math", state=StepState.DONE, parts=[tool_part("math")])
RUNNING = Step(number=1, kind="tool", name="math", state=StepState.RUNNING)


def attempt(**fields: Any) -> AssistantAttempt:
    return AssistantAttempt(make_job(id="p", **fields), Mock(spec=Delivery))


def delta(*ids: int, text: str = "", **fields: Any) -> Delta:
    return Delta(job_id="child", attempt_id="x", start=90, token_ids=list(ids), text=text, **fields)


def test_ended_steps_and_tokens_take_positions() -> None:
    each = attempt()
    assert [(each.release_step(step).start, each.position) for step in (ROUTE, RUNNING, TOOL)] == [
        (0, 1),
        (1, 1),
        (1, 2),
    ]
    released = each.release(delta(7, 8, text="0 1 ", cached_tokens=3))
    assert (released.job_id, released.attempt_id, released.start) == ("p", each.attempt_id, 2)
    assert each.position == 4
    each.prompt_tokens = 5
    assert each.usage == Usage(prompt_tokens=5, completion_tokens=2, cached_tokens=3)
    assert each.digest == hashlib.sha256(b'["0 1 "]').hexdigest()


def test_a_running_step_is_no_progress_and_an_ended_one_is() -> None:
    each = attempt()
    each.solo = True
    each.release_step(RUNNING)
    assert (each.progressed, each.solo) == (False, True)
    each.release_step(TOOL)
    assert (each.progressed, each.solo) == (True, False)


def test_the_bill_has_the_steps_of_this_and_earlier_attempts() -> None:
    each = attempt(steps=[ROUTE, TOOL])
    other = Step(number=2, kind="tool", name="weather", state=StepState.DONE, parts=[tool_part("weather")])
    each.release_step(other)
    assert each.parts == [tool_part("math"), tool_part("weather")]
    each.final = Usage(prompt_tokens=5, completion_tokens=1)
    terminal = Finished(job_id="p", attempt_id=each.attempt_id, usage=each.final)
    record = each.usage_record(terminal, "assistant-1")
    assert (record.parts, record.usage) == (each.parts, each.final)


def test_it_continues_after_what_was_delivered() -> None:
    each = attempt()
    each.continue_after(
        Resume(
            job="p",
            attempt=each.attempt_id,
            decision=ResumeDecision.START,
            delivered=[[1, 2, 3]],
            cached_tokens=4,
            steps=[ROUTE, TOOL],
        )
    )
    assert (each.steps, each.tokens, each.position) == ([ROUTE, TOOL], 3, 5)
    assert each.release(delta(9)).start == 5
    each.prompt_tokens = 6
    assert each.usage == Usage(prompt_tokens=6, completion_tokens=4, cached_tokens=4)
