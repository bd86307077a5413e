"""What a chat model is asked that grades the paths of a search, and how its grades are read."""

from __future__ import annotations

import asyncio
import math
from typing import Any, cast

import msgspec
import pytest

from inference_worker.search.events import PathScore, Score, Scored, Unread
from inference_worker.worker.search.attempt import SearchAttempt
from inference_worker.worker.search.judge import GRADED_AT_ONCE, grades_of
from router.messages import (
    ChatPrompt,
    Delta,
    Failed,
    FailureCode,
    Finished,
    Job,
    Reply,
    Started,
    Step,
    StepState,
    TokenAlternative,
    TokenLogprob,
    Usage,
)
from router.producer.child_jobs import ChildJobs, ChildRequest
from router.producer.errors import JobFailed, WorkerLost
from router.transport.base import Delivery
from tests.fakes.jobs import make_job
from tests.fakes.search_workers import BEAM, SEPARATOR
from tests.inference_worker.worker.search.test_verifier import Traced

MESSAGES = [{"role": "user", "content": "count"}]
STEP = Step(number=0, kind="search", name="beam_search", state=StepState.DONE)
FINISHED = Finished(job_id="c", attempt_id="a", usage=Usage(prompt_tokens=30, completion_tokens=1))


def said(text: str, **probabilities: float) -> Delta:
    top = [TokenAlternative(1, name.lstrip("_"), math.log(each)) for name, each in probabilities.items()]
    logprobs = [TokenLogprob(TokenAlternative(1, text, -1.0), top)] if top else None
    return Delta(job_id="c", attempt_id="a", start=0, token_ids=[1], text=text, logprobs=logprobs)


class Judge:
    """Child jobs whose replies are given, by the number of the path; a path without replies is never graded."""

    def __init__(self, *replies: list[Reply | Exception]) -> None:
        self._replies = replies
        self.asked: dict[str, ChildRequest] = {}
        self.closed: list[str] = []
        self.most_open = 0
        """Largest number of child jobs that were open at a time."""

    async def replies(self, job: Job, request: ChildRequest, headers: Any) -> Any:
        self.asked[request.step] = request
        self.most_open = max(self.most_open, len(self.asked) - len(self.closed))
        assert (job.deadline, headers) == (5.0, Traced.headers)
        replies = self._replies[int(request.step.rpartition("-")[2])]
        try:
            for reply in replies:
                await asyncio.sleep(0)
                if isinstance(reply, Exception):
                    raise reply
                yield reply
            if not replies:
                await asyncio.Event().wait()
        finally:
            self.closed.append(request.step)


TWO_PATHS = [["1 7 ", "2 "], [f"5 {SEPARATOR}"]]


async def evaluated(judge: Judge, max_tokens: int = 60, texts: list[list[str]] = TWO_PATHS) -> Scored | Unread:
    search = msgspec.structs.replace(BEAM, judge=True)
    job = make_job(prompt=ChatPrompt(messages=MESSAGES), search=search, steps=[STEP], deadline=9.0)
    command = Score([*range(len(texts))], texts, max_tokens)
    attempt = SearchAttempt(job, cast(Delivery, Traced()))
    return await grades_of(command, attempt, cast(ChildJobs, judge), deadline=5.0)


async def graded(judge: Judge) -> Scored:
    scored = await evaluated(judge)
    assert isinstance(scored, Scored)
    return scored


async def test_each_path_is_an_answer_of_the_conversation_after_which_a_grade_is_asked_for() -> None:
    judge = Judge([said("9"), FINISHED], [said("3"), FINISHED])
    assert await graded(judge) == Scored([score(1.0), score(3 / 9)], tokens=60, written=2)
    assert sorted(judge.asked) == ["v1-0", "v1-1"]
    request = judge.asked["v1-0"]
    assert isinstance(request.prompt, ChatPrompt)
    assert request.prompt.messages[:2] == [*MESSAGES, {"role": "assistant", "content": "1 7 2 "}]
    assert request.prompt.messages[2]["role"] == "user"
    assert request.grammar is not None
    assert json_list(request.grammar.source) == list("0123456789")
    assert (request.sampling.temperature, request.sampling.max_tokens, request.model) == (0, 1, BEAM.verifier)


def score(value: float) -> Any:
    return PathScore(cast(list[float], [pytest.approx(value)]))


def json_list(text: str) -> list[str]:
    return msgspec.json.decode(text, type=list[str])


async def test_a_grade_is_the_mean_of_the_digits_by_their_probabilities() -> None:
    sure = said("9", _9=0.5, _0=0.25, because=0.25)
    torn = said(" 4", **{"_4": 0.3, "_ 8": 0.3})
    assert await graded(Judge([sure, FINISHED], [torn, FINISHED])) == Scored(
        [score(9 * 0.5 / 0.75 / 9), score(6 / 9)], tokens=60, written=2
    )


async def test_a_path_without_a_digit_has_no_grade() -> None:
    found = await graded(Judge([said("Well"), FINISHED], [FINISHED]))
    assert all(math.isnan(path.steps[0]) for path in found.scores)
    assert (found.tokens, found.written) == (60, 2)


STARTED = Started(job_id="c", attempt_id="a", worker_id="w", prompt_tokens=30)


async def test_a_judge_that_would_read_more_than_it_may_is_stopped_and_what_it_used_is_known() -> None:
    judge = Judge([STARTED, said("9"), FINISHED], [said(""), said(""), said(""), said(""), STARTED, said("3")])
    assert await evaluated(judge, 59) == Unread(30, 1)
    assert sorted(judge.closed) == ["v1-0", "v1-1"]
    again = Judge([STARTED, STARTED, said("9"), FINISHED], [STARTED, said("3"), FINISHED])
    assert isinstance(await evaluated(again, 60), Scored), "the first was read again by another worker"


async def test_paths_with_more_tokens_than_the_judges_context_are_unread() -> None:
    failed = Failed(job_id="c", attempt_id="a", code=FailureCode.CONTEXT_LENGTH_EXCEEDED, message="Too long.")
    judge = Judge([STARTED, said("9"), FINISHED], [said(""), said(""), said(""), JobFailed(failed)])
    assert await evaluated(judge, 100) == Unread(30, 1)
    assert sorted(judge.closed) == ["v1-0", "v1-1"]


async def test_an_error_of_one_child_job_ends_the_others() -> None:
    judge = Judge([WorkerLost()], [])
    with pytest.raises(WorkerLost):
        await graded(judge)
    assert sorted(judge.closed) == ["v1-0", "v1-1"]


async def test_a_search_has_few_jobs_at_a_time_in_the_judges_queue() -> None:
    replies: list[Reply | Exception] = [said("9"), FINISHED]
    judge = Judge(*[replies] * 40)
    scored = await evaluated(judge, 40 * 30, [[str(path)] for path in range(40)])
    assert scored == Scored([score(1.0)] * 40, tokens=40 * 30, written=40)
    assert judge.most_open == GRADED_AT_ONCE
