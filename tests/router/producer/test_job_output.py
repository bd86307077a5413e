"""The accepted output of a job: order of positions, resume points, prompts and vectors."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.messages import (
    Delta,
    Drawn,
    Embedded,
    EmbeddingPrompt,
    Finished,
    ImagePrompt,
    PromptEcho,
    PromptLogprobs,
    Scored,
    ScorePrompt,
    Step,
    StepState,
    TextOptions,
    TokenAlternative,
    TokenLogprob,
    ToolCallDelta,
    Usage,
    UsagePart,
)
from router.producer.errors import RepliesLost
from router.producer.job_output import MAX_TEXT_BYTES, Acceptance, JobOutput, ResumePoint
from tests.contract.examples import JOB
from tests.fakes.jobs import make_job


def delta(start: int, *ids: int, choice: int = 0, end: bool = False, text: str = "") -> Delta:
    return Delta(
        job_id="j",
        attempt_id="a",
        choice=choice,
        start=start,
        token_ids=list(ids),
        text=text,
        finish_reason="stop" if end else None,
    )


FINISHED = Finished(job_id="j", attempt_id="a", usage=Usage(prompt_tokens=1))


def test_tokens_are_accepted_in_order_and_once() -> None:
    output = JobOutput(2)
    assert output.accept(delta(0, 5, 6)) is Acceptance.NEW
    assert output.accept(delta(0, 5, 6)) is Acceptance.DUPLICATE
    assert output.accept(delta(3, 8)) is Acceptance.GAP
    assert output.accept(delta(2, 7, end=True)) is Acceptance.NEW
    assert output.accept(delta(3, 8)) is Acceptance.DUPLICATE
    assert (output.positions, output.tokens, output.extent, output.begun) == ([3, 0], 3, 3, True)


def test_scores_may_arrive_in_any_order_and_only_their_indexes_are_kept() -> None:
    prompt = ScorePrompt(contexts=["q"], candidates=["a", "b", "c"])
    output = JobOutput.of(msgspec.structs.replace(JOB, prompt=prompt, embedded=[1]))

    def scored(start: int, count: int = 1) -> Scored:
        return Scored(job_id="j", attempt_id="a", start=start, scores=[0.5] * count)

    assert output.accept(scored(2)) is Acceptance.NEW
    assert output.accept(scored(1, 2)) is Acceptance.DUPLICATE
    assert output.accept(FINISHED) is Acceptance.GAP
    assert (output.resume_point.embedded, output.extent) == ([1, 2], 1)
    with pytest.raises(RepliesLost):
        output.accept(scored(3))
    assert output.accept(scored(0)) is Acceptance.NEW
    assert output.accept(FINISHED) is Acceptance.NEW


def test_a_job_finishes_after_all_of_its_choices() -> None:
    output = JobOutput(2)
    output.accept(delta(0, 1, end=True))
    assert output.accept(FINISHED) is Acceptance.GAP
    output.accept(delta(0, 1, choice=1, end=True))
    assert output.accept(FINISHED) is Acceptance.NEW


def test_a_new_attempt_continues_after_the_accepted_tokens() -> None:
    output = JobOutput(2)
    assert output.resume_point.delivered == []
    output.accept(delta(0, 5, 6))
    output.accept(delta(0, 9, choice=1, end=True))
    assert output.resume_point.delivered == [[5, 6], [9]]
    assert output.resume_point.ended == [1]
    assert output.resumable


def untokenised(start: int, text: str = "", *, positions: int = 1, **fields: Any) -> Delta:
    positions_only: dict[str, Any] = {"token_ids": [], "untokenised_positions": positions}
    return Delta(job_id="j", attempt_id="a", start=start, text=text, **positions_only, **fields)


def test_a_new_attempt_continues_after_a_text_without_ids_and_the_ids_after_it() -> None:
    output = JobOutput(2)
    output.accept(untokenised(0, "Grü", positions=2))
    output.accept(untokenised(2, "ße"))
    assert output.resume_point == ResumePoint([[], []], [], [], 0, ["Grüße", ""], [3, 0], [])
    output.accept(delta(3, 7, 8))
    assert output.resumable
    assert output.resume_point == ResumePoint([[7, 8], []], [], [], 0, ["Grüße", ""], [3, 0], [])
    output.accept(untokenised(5, "text"))
    assert not output.resumable, "text after ids"


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning": "hm"},
        {"tool_calls": [ToolCallDelta(index=0, id="call", name="f")]},
        {"text": "x" * (MAX_TEXT_BYTES + 1)},
    ],
)
def test_reasoning_tool_calls_and_very_long_texts_without_ids_can_not_be_continued(fields: dict[str, Any]) -> None:
    output = JobOutput(1)
    output.accept(untokenised(0, **fields))
    output.accept(untokenised(1, "text"))
    assert not output.resumable
    assert output.resume_point.texts == [""], "it is not kept"


def test_unknown_choices_and_inputs_are_errors() -> None:
    with pytest.raises(RepliesLost):
        JobOutput(1).accept(delta(0, 1, choice=1))
    with pytest.raises(RepliesLost):
        JobOutput(0, inputs=1).accept(Embedded(job_id="j", attempt_id="a", start=0, vectors=[b"", b""], tokens=2))


def test_vectors_may_arrive_in_any_order() -> None:
    output = JobOutput(0, inputs=3)

    def vectors(start: int, count: int) -> Embedded:
        return Embedded(job_id="j", attempt_id="a", start=start, vectors=[b"v"] * count, tokens=count)

    assert output.accept(vectors(2, 1)) is Acceptance.NEW
    assert output.accept(vectors(2, 1)) is Acceptance.DUPLICATE
    assert output.accept(FINISHED) is Acceptance.GAP
    assert output.resume_point.embedded == [2]
    assert output.accept(vectors(0, 3)) is Acceptance.NEW
    assert output.accept(FINISHED) is Acceptance.NEW


def test_images_may_arrive_in_any_order_and_only_their_numbers_are_kept() -> None:
    output = JobOutput(0, images=3)

    def drawn(start: int, count: int = 1) -> Drawn:
        return Drawn(job_id="j", attempt_id="a", start=start, images=[b"png"] * count)

    assert output.accept(drawn(2)) is Acceptance.NEW
    assert output.accept(drawn(2)) is Acceptance.DUPLICATE
    assert output.accept(FINISHED) is Acceptance.GAP
    assert (output.resume_point.ended, output.positions, output.extent) == ([2], [0, 0, 1], 1)
    assert output.resumable
    assert not output.begun, "another worker may draw the other images without a resume decision"
    with pytest.raises(RepliesLost):
        output.accept(drawn(2, 2))
    assert output.accept(drawn(0, 2)) is Acceptance.NEW
    assert output.accept(FINISHED) is Acceptance.NEW


def test_the_requested_prompt_precedes_the_first_token() -> None:
    output = JobOutput(1, echo=True, scores=True)
    echo = PromptEcho(job_id="j", attempt_id="a", token_ids=[1, 2, 3], text="abc")
    assert output.accept(delta(0, 5)) is Acceptance.GAP
    assert output.accept(echo) is Acceptance.NEW
    assert output.accept(echo) is Acceptance.DUPLICATE

    def scores(start: int, count: int) -> PromptLogprobs:
        logprobs = [TokenLogprob(TokenAlternative(1, "", -1.0), [])] * count
        return PromptLogprobs(job_id="j", attempt_id="a", start=start, logprobs=logprobs, ranks=[1] * count)

    assert output.accept(scores(2, 1)) is Acceptance.GAP
    assert output.accept(scores(1, 1)) is Acceptance.NEW
    assert output.accept(delta(0, 5)) is Acceptance.GAP
    assert output.accept(scores(1, 2)) is Acceptance.NEW
    assert output.accept(delta(0, 5)) is Acceptance.NEW


CALL = UsagePart(model="tool.weather", usage=Usage(prompt_tokens=0, units={"call": 1}))


def step(number: int, state: StepState = StepState.DONE, *, start: int | None = None, **fields: Any) -> Delta:
    told = Step(number=number, kind="tool", name="weather", state=state, parts=[CALL] if state.ended else [])
    positions: dict[str, Any] = {"token_ids": [], "untokenised_positions": int(state.ended)}
    start = number if start is None else start
    return Delta(**{"job_id": "j", "attempt_id": "a", "start": start, "step": told, **positions, **fields})


def test_an_ended_step_takes_a_position_and_a_running_one_none() -> None:
    output = JobOutput(1)
    assert output.accept(step(0, StepState.RUNNING)) is Acceptance.NEW
    assert not output.begun
    assert output.accept(step(0)) is Acceptance.NEW
    assert output.accept(step(0)) is Acceptance.DUPLICATE
    assert output.accept(step(0, StepState.RUNNING)) is Acceptance.DUPLICATE
    assert output.accept(step(2)) is Acceptance.GAP
    assert output.accept(step(1, StepState.FAILED)) is Acceptance.NEW
    assert output.accept(delta(2, 7, 8)) is Acceptance.NEW
    assert (output.positions, output.begun, output.resumable) == ([4], True, True)
    point = output.resume_point
    assert ([each.number for each in point.steps], point.delivered) == ([0, 1], [[7, 8]])
    resumed = msgspec.structs.replace(JOB, **point._asdict())
    assert (resumed.delivered_positions(0), resumed.begun) == (4, True)


@pytest.mark.parametrize(
    "malformed",
    [
        step(0, choice=1),
        step(0, text="x"),
        step(0, token_ids=[1]),
        step(0, finish_reason="stop"),
        step(0, untokenised_positions=2),
        step(0, untokenised_positions=0),
        step(0, StepState.RUNNING, untokenised_positions=1),
    ],
)
def test_a_malformed_step_is_refused(malformed: Delta) -> None:
    with pytest.raises(RepliesLost):
        JobOutput(2).accept(malformed)


def test_a_new_attempt_is_told_the_cached_tokens_that_an_ended_step_reported() -> None:
    output = JobOutput(1)
    output.accept(step(0, StepState.RUNNING))
    output.accept(step(0, cached_tokens=4))
    assert output.resume_point.cached_tokens == 4


def test_no_step_follows_the_first_token() -> None:
    output = JobOutput(1)
    output.accept(delta(0, 5))
    with pytest.raises(RepliesLost):
        output.accept(step(1))


@given(st.integers(0, 5), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 7)), max_size=12))
def test_each_step_is_accepted_once_in_any_delivery(steps: int, deliveries: list[tuple[int, int]]) -> None:
    """Replies may arrive again, too early, or from another attempt: each accepted step is billed once."""
    output, accepted = JobOutput(1), []
    replies = [*(step(number) for number in range(steps)), delta(steps, 1), delta(steps + 1, 2, end=True)]
    for first, last in [*deliveries, (0, len(replies))]:
        new = [each for each in replies[first:last] if output.accept(each) is Acceptance.NEW]
        accepted += [each.step.number for each in new if each.step is not None]
    assert accepted == list(range(steps))
    assert [each.number for each in output.resume_point.steps] == accepted


def test_a_job_that_was_opened_with_output_goes_on_after_it() -> None:
    given = ResumePoint([[5, 6], []], [1], [], 4, ["Hi ", ""], [1, 0], steps=[])
    job = make_job(n=2, **given._asdict())
    output = JobOutput.of(job)
    assert (output.positions, output.begun, output.grown, output.extent) == ([3, 0], True, False, 0)
    assert output.resume_point == given
    assert output.accept(delta(2, 7)) is Acceptance.DUPLICATE
    assert output.accept(delta(4, 7)) is Acceptance.GAP
    assert output.accept(delta(0, 7, choice=1)) is Acceptance.DUPLICATE
    assert output.accept(delta(3, 7, end=True)) is Acceptance.NEW
    assert (output.grown, output.extent, output.resume_point.delivered) == (True, 1, [[5, 6, 7], []])
    assert output.accept(FINISHED) is Acceptance.NEW


def test_vectors_and_images_that_were_delivered_before_are_not_missing() -> None:
    vectors = JobOutput.of(make_job(prompt=EmbeddingPrompt(inputs=["a", "b"]), embedded=[0]))
    assert (vectors.extent, vectors.resume_point.embedded) == (0, [0])
    assert vectors.accept(Embedded(job_id="j", attempt_id="a", start=0, vectors=[b""])) is Acceptance.DUPLICATE
    assert vectors.accept(Embedded(job_id="j", attempt_id="a", start=1, vectors=[b""])) is Acceptance.NEW
    assert vectors.accept(FINISHED) is Acceptance.NEW
    images = JobOutput.of(make_job(prompt=ImagePrompt(prompt="a cat", size="64x64"), n=2, ended=[1]))
    assert images.accept(FINISHED) is Acceptance.GAP
    assert images.positions == [0, 1]


def test_an_echo_is_not_repeated_to_a_job_that_was_opened_with_output() -> None:
    output = JobOutput.of(make_job(delivered=[[5]], text=TextOptions(echo=True)))
    assert output.accept(delta(1, 6)) is Acceptance.NEW


def test_a_job_that_was_opened_with_steps_goes_on_after_them() -> None:
    first = step(0).step
    output = JobOutput.of(make_job(steps=[first], delivered=[[5]]))
    assert (output.positions, output.resume_point.steps, output.grown) == ([2], [first], False)
    assert output.accept(step(0)) is Acceptance.DUPLICATE
    assert output.accept(delta(2, 6)) is Acceptance.NEW
