"""The end of reasoning is found and forced by a choice's own tokens only, however these are split into portions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inference_worker.reasoning import ReasoningProgress, ReasoningTokens, answer_ids

START, END = 7, 8
OPEN = ReasoningTokens(end=[END])
UNDECIDED = ReasoningTokens(start=START, end=[END])


def limited(budget: int, *, start: int | None = None) -> ReasoningTokens:
    return ReasoningTokens(start=start, end=[4, END], budget=budget, forced=[3, 4, END])


def test_the_answer_begins_after_the_end_of_the_reasoning() -> None:
    assert answer_ids(OPEN, [1, END, 2, END]) == [2, END]
    assert answer_ids(OPEN, [1, 2]) == []
    assert answer_ids(UNDECIDED, [START, 1, END, 2]) == [2]
    assert answer_ids(UNDECIDED, [1, START, END]) == [1, START, END]
    assert answer_ids(limited(9), [4, 4, END, 2]) == [2]
    assert answer_ids(limited(9), [4, 1, END, 2]) == []
    assert answer_ids(None, [START, 1]) == [START, 1]


def test_only_the_first_token_may_begin_it() -> None:
    assert ReasoningProgress(UNDECIDED).begins_with == START
    assert ReasoningProgress(UNDECIDED, [1]).begins_with is None
    assert ReasoningProgress(UNDECIDED, [START]).begins_with is None
    assert ReasoningProgress(OPEN).begins_with is None


def test_the_tokens_of_the_end_are_forced_one_by_one_after_the_budget() -> None:
    progress = ReasoningProgress(limited(2, start=START))
    forced = []
    for token in (START, 1, 1, 3, 4, END, 5):
        forced.append(progress.forced)
        progress.push(token)
    assert forced == [None, None, None, 3, 4, END, None]


def test_a_reasoning_that_ended_in_time_is_not_forced_and_no_answer_is() -> None:
    assert ReasoningProgress(limited(2), [4, END]).forced is None
    assert ReasoningProgress(limited(0, start=START), [1, 1]).forced is None
    assert ReasoningProgress(limited(0)).forced == 3


def test_as_many_tokens_are_unforced_as_the_budget_leaves() -> None:
    assert ReasoningProgress(OPEN).unforced is None
    assert ReasoningProgress(limited(2, start=START)).unforced == 3
    assert ReasoningProgress(limited(2), [1]).unforced == 1
    assert ReasoningProgress(limited(2), [1, 1, 3]).unforced == 0
    assert ReasoningProgress(limited(2), [4, END]).unforced is None


generated = st.lists(st.sampled_from([1, 3, 4, START, END]), max_size=12)
reasoning = st.sampled_from([OPEN, UNDECIDED, limited(0), limited(3), limited(3, start=START)])


@given(reasoning, generated, generated)
def test_drafts_do_not_change_the_state_that_they_follow(
    tokens: ReasoningTokens, before: list[int], drafts: list[int]
) -> None:
    progress, whole = ReasoningProgress(tokens, before), ReasoningProgress(tokens, [*before, *drafts])
    drafted = progress.after(drafts)
    assert _state(drafted) == _state(whole)
    assert _state(progress) == _state(ReasoningProgress(tokens, before))


@given(reasoning, generated, generated)
def test_tokens_that_become_a_part_of_the_prompt_count(
    tokens: ReasoningTokens, before: list[int], after: list[int]
) -> None:
    rest = tokens.after(before)
    assert answer_ids(tokens, [*before, *after]) == [*answer_ids(tokens, before), *answer_ids(rest, after)] or (
        tokens.end == [4, END] and before[-1:] == [4]  # an end that lies in both is not found
    )


def _state(progress: ReasoningProgress) -> tuple[object, ...]:
    return progress.open, progress.ended, progress.count, progress.forced, progress.unforced, progress.begins_with
