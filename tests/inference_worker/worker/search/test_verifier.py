"""What the verifier of a search is asked, and how its scores are read."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import pytest

from inference_worker.search.events import PathScore, Score, Scored, Unread
from inference_worker.worker.search.attempt import SearchAttempt
from inference_worker.worker.search.verifier import scores_of
from router import messages
from router.messages import ChatPrompt, Failed, FailureCode, Finished, ScorePrompt, Step, StepState, Usage
from router.producer.child_jobs import ChildJobs, ChildRequest
from router.producer.errors import JobFailed, WorkerLost
from router.transport.base import Delivery
from tests.fakes.jobs import make_job
from tests.fakes.search_workers import BEAM, SEPARATOR, VERIFIER

MESSAGES = [{"role": "user", "content": "count"}]
STEP = Step(number=0, kind="search", name="beam_search", state=StepState.DONE)


class Children:
    """Child jobs whose replies are given."""

    def __init__(self, *replies: messages.Reply | Exception) -> None:
        self._replies = replies
        self.asked: list[tuple[messages.Job, ChildRequest, Any]] = []

    async def replies(self, job: messages.Job, request: ChildRequest, headers: Any) -> Any:
        self.asked.append((job, request, headers))
        for reply in self._replies:
            if isinstance(reply, Exception):
                raise reply
            yield reply


class Traced:
    """The first delivery of a message with a trace."""

    headers: ClassVar = {"traceparent": "t"}
    redelivered, delivery_count = False, 0


def scored(start: int, scores: list[float], steps: list[list[float]]) -> messages.Scored:
    return messages.Scored(job_id="c", attempt_id="a", start=start, scores=scores, step_scores=steps, tokens=3)


async def ask(children: Children) -> Scored | Unread:
    job = make_job(prompt=ChatPrompt(messages=MESSAGES), search=BEAM, steps=[STEP], deadline=9.0)
    attempt = SearchAttempt(job, cast(Delivery, Traced()))
    command = Score([3, 4], [["1 7 ", "2 "], [f"5 {SEPARATOR}"]], 900)
    return await scores_of(command, attempt, cast(ChildJobs, children), deadline=5.0)


FINISHED = Finished(job_id="c", attempt_id="a", usage=Usage(prompt_tokens=30))


async def test_the_verifier_gets_the_conversation_and_the_steps_without_their_separators() -> None:
    children = Children(scored(0, [0.5, 0.5], []), FINISHED)
    await ask(children)
    [(job, request, headers)] = children.asked
    assert (job.deadline, headers) == (5.0, Traced.headers)
    assert (request.step, request.model) == ("v1", VERIFIER)
    assert request.prompt == ScorePrompt(
        contexts=[MESSAGES],
        candidates=[["1 ", "2 "], ["5 "]],
        separator=SEPARATOR,
        max_tokens=900,
        param="test_time_compute",
    )


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([[0.1, 0.2], [0.3]], [PathScore([0.1, 0.2]), PathScore([0.3])]),
        ([[], []], [PathScore([0.2]), PathScore([0.3])]),
    ],
)
async def test_scores_are_of_each_step_if_the_verifier_scores_steps(
    steps: list[list[float]], expected: list[PathScore]
) -> None:
    late = scored(1, [0.3], [steps[1]] if steps[1] else [])
    early = scored(0, [0.2], [steps[0]] if steps[0] else [])
    assert await ask(Children(late, early, FINISHED)) == Scored(expected, 30)


def failed(code: FailureCode) -> JobFailed:
    return JobFailed(Failed(job_id="c", attempt_id="a", code=code, message="No."))


async def test_paths_with_more_tokens_than_the_verifier_may_read_are_unread() -> None:
    assert await ask(Children(failed(FailureCode.TOO_MANY_TOKENS))) == Unread()
    assert await ask(Children(failed(FailureCode.CONTEXT_LENGTH_EXCEEDED))) == Unread()
    with pytest.raises(JobFailed):
        await ask(Children(failed(FailureCode.ENGINE_ERROR)))


async def test_errors_of_the_child_job_are_raised() -> None:
    with pytest.raises(WorkerLost):
        await ask(Children(WorkerLost()))
