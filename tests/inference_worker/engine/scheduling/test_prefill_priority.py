"""Which entries of a step are deferred for prompts, and which prompts may interrupt a step."""

from __future__ import annotations

from array import array

import pytest

from inference_worker.engine.batch import ScheduledSequence
from inference_worker.engine.scheduling.limits import (
    FLEX_STEP_TOKENS,
    SHORT_FLEX_STEP_SECONDS,
    SHORT_FLEX_STEP_TOKENS,
)
from inference_worker.engine.scheduling.prefill_priority import MAX_FLEX_DEFERRALS, PrefillPriority
from inference_worker.engine.sequence import Sequence
from router.messages import SamplingParams

SHORT = range(4, 11)


def prompt(tokens: int, *, flex: bool = False) -> ScheduledSequence:
    sequence = Sequence("r", 0, array("q", [1] * tokens), tokens, SamplingParams(seed=0), 9, flex=flex)
    return ScheduledSequence(sequence, 0, tokens)


def decode(*, flex: bool = False) -> ScheduledSequence:
    sequence = Sequence("r", 0, array("q", [1, 1, 1]), 2, SamplingParams(seed=0), 9, flex=flex)
    return ScheduledSequence(sequence, 2, 1)


def test_flex_is_deferred_for_prompts_of_others_some_steps_in_a_row() -> None:
    priority = PrefillPriority(range(0))
    entries = [prompt(5), decode(), decode(flex=True), prompt(3, flex=True)]
    kept = [priority.kept(entries) for _ in range(MAX_FLEX_DEFERRALS + 2)]
    assert kept == [entries[:2]] * MAX_FLEX_DEFERRALS + [entries, entries[:2]]
    assert priority.kept(entries[1:]) == entries[1:], "no prompt of another class"


def test_flex_has_steps_of_its_own_where_rows_take_time() -> None:
    entries = [decode(), prompt(5, flex=True)]
    assert PrefillPriority(range(0)).kept(entries) == entries
    priority = PrefillPriority(SHORT)
    kept = [priority.kept(entries) for _ in range(MAX_FLEX_DEFERRALS + 2)]
    assert kept == [entries[:1]] * MAX_FLEX_DEFERRALS + [entries[1:], entries[:1]]


def test_steps_of_flex_are_short_while_others_come() -> None:
    now = 50.0
    priority = PrefillPriority(SHORT, clock=lambda: now)
    assert priority.flex_budget(512) == FLEX_STEP_TOKENS
    assert priority.flex_budget(3) == 3
    priority.kept([prompt(5)])
    assert priority.flex_budget(512) == SHORT_FLEX_STEP_TOKENS
    now += SHORT_FLEX_STEP_SECONDS / 2
    priority.kept([decode(flex=True)])
    assert priority.flex_budget(512) == SHORT_FLEX_STEP_TOKENS
    now += SHORT_FLEX_STEP_SECONDS / 2
    assert priority.flex_budget(512) == FLEX_STEP_TOKENS


def test_steps_of_flex_have_the_whole_budget_where_rows_take_little_time() -> None:
    priority = PrefillPriority(range(0))
    priority.kept([prompt(5)])
    assert priority.flex_budget(512) == 512


def test_prompts_of_flex_defer_decodes_of_flex() -> None:
    alone = [decode(flex=True), prompt(5, flex=True)]
    assert PrefillPriority(SHORT).kept(alone) == alone[1:]


@pytest.mark.parametrize(
    ("step", "tokens"),
    [
        ([decode()], SHORT),
        ([decode(), decode(flex=True)], SHORT),
        ([decode(flex=True)], range(0)),
        ([prompt(5), decode(flex=True)], range(0)),
    ],
)
def test_short_prompts_may_interrupt_a_step_of_decodes(step: list[ScheduledSequence], tokens: range) -> None:
    priority = PrefillPriority(SHORT)
    priority.kept(step)
    assert [each for each in range(1, 20) if priority.may_interrupt(each)] == list(tokens)
    priority.record_interrupt()
    assert not priority.may_interrupt(5)


def test_decodes_are_not_delayed_twice() -> None:
    priority = PrefillPriority(SHORT)
    priority.kept([decode()])
    priority.record_interrupt()
    priority.kept([decode()])
    assert not priority.may_interrupt(5)
    priority.kept([decode()])
    assert priority.may_interrupt(5)
