"""Has the paths of a search graded by a chat model that acts as a judge: a child job for each path.

The judge's answer is held to one digit by a grammar. The score is the digits' mean under the model's own probabilities,
which tells paths apart to which it would give the same digit (G-Eval, Liu et al. 2023, arXiv:2303.16634).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

import msgspec

from inference_worker.search.events import PathScore, Score, Scored, Unread
from inference_worker.worker.search.attempt import SearchAttempt
from inference_worker.worker.search.verifier import UNREAD
from router.messages import (
    ChatPrompt,
    Delta,
    Finished,
    Grammar,
    GrammarKind,
    Job,
    SamplingParams,
    Started,
    TokenLogprob,
    Usage,
)
from router.producer.child_jobs import ChildJobs, ChildRequest
from router.producer.errors import JobFailed
from router.usage_arithmetic import total

HIGHEST = 9
_DIGITS = {str(digit): digit for digit in range(HIGHEST + 1)}
_GRAMMAR = Grammar(kind=GrammarKind.CHOICE, source=msgspec.json.encode(list(_DIGITS)).decode())
GRADED_AT_ONCE = 8
"""Most child jobs of a search at a time: the judge's queue on the broker is first in, first out for all tenants."""
_ALTERNATIVES = 20
"""Most probable tokens whose probabilities are asked for."""
_QUESTION = (
    "Grade the answer above, which may be unfinished: how likely is it that it is right so far and will end with the"
    f" right result? Write one digit, from 0 (it has a mistake) to {HIGHEST} (it is certainly right)."
)


@dataclass
class _Reading:
    """What the judge reads for one command: prompt tokens of the child jobs that have started, by path."""

    max_tokens: int
    started: dict[int, int] = field(default_factory=dict)
    graded: dict[int, tuple[float, Usage]] = field(default_factory=dict)
    """Grade and usage of the child jobs that have ended, by path."""

    def start(self, index: int, tokens: int) -> None:
        """Note that the judge reads a path.

        Raises:
            _TooManyTokens: it would read more than it may.
        """
        self.started[index] = tokens
        if sum(self.started.values()) > self.max_tokens:
            raise _TooManyTokens

    @property
    def used(self) -> Usage:
        """Usage of the child jobs that have ended."""
        return total(usage for _, usage in self.graded.values())


class _TooManyTokens(Exception):
    """Raised when a judge would read more tokens than it may."""


async def grades_of(command: Score, attempt: SearchAttempt, children: ChildJobs, *, deadline: float) -> Scored | Unread:
    """Have a chat model grade the paths of `command`, by one child job for each path; return the grades as scores.

    A grade is 0 to 1, or NaN for a path that the judge did not grade. `Unread` once child jobs with more tokens than
    the judge may read have started, or one exceeds its context; the others are cancelled.
    Cancelling the call cancels the child jobs.

    Args:
        command: the paths, with the texts of their steps.
        attempt: the job whose answer is searched for.
        children: opens the child jobs.
        deadline: when the job must have ended, by this machine's clock.

    Raises:
        ChildJobError: a child job has failed; the others are cancelled.
    """
    job = msgspec.structs.replace(attempt.job, deadline=deadline)
    reading, places = _Reading(command.max_tokens), asyncio.Semaphore(GRADED_AT_ONCE)

    async def grade(index: int, steps: list[str]) -> None:
        request = _request(attempt, index, "".join(steps))
        started = partial(reading.start, index)
        async with places:
            reading.graded[index] = await _graded(job, request, children, attempt.delivery.headers, started)

    grading = [asyncio.create_task(grade(index, steps)) for index, steps in enumerate(command.texts)]
    try:
        await asyncio.gather(*grading)
    except _TooManyTokens:
        return Unread(reading.used.prompt_tokens, reading.used.completion_tokens)
    except JobFailed as error:
        if error.failure in UNREAD:
            return Unread(reading.used.prompt_tokens, reading.used.completion_tokens)
        raise
    finally:
        for task in grading:
            task.cancel()
        await asyncio.gather(*grading, return_exceptions=True)
    return Scored(
        [PathScore([reading.graded[index][0]]) for index in range(len(command.texts))],
        reading.used.prompt_tokens,
        reading.used.completion_tokens,
    )


def _request(attempt: SearchAttempt, index: int, answer: str) -> ChildRequest:
    prompt = attempt.job.prompt
    messages = [*prompt.messages] if isinstance(prompt, ChatPrompt) else []
    messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": _QUESTION}]
    return ChildRequest(
        step=f"v{len(attempt.steps)}-{index}",
        model=attempt.search.verifier,
        prompt=ChatPrompt(messages=messages, reasoning_effort="none"),
        sampling=SamplingParams(seed=attempt.job.sampling.seed, temperature=0.0, max_tokens=1, logprobs=_ALTERNATIVES),
        grammar=_GRAMMAR,
    )


async def _graded(
    job: Job, request: ChildRequest, children: ChildJobs, headers: Mapping[str, object], started: Callable[[int], None]
) -> tuple[float, Usage]:
    grade, usage = math.nan, Usage(prompt_tokens=0)
    async with aclosing(children.replies(job, request, headers)) as replies:
        async for reply in replies:
            if isinstance(reply, Started):
                started(reply.prompt_tokens)
            elif isinstance(reply, Delta) and math.isnan(grade):
                grade = _grade(reply.text, reply.logprobs or [])
            elif isinstance(reply, Finished):
                usage = reply.usage
    return grade, usage


def _grade(text: str, logprobs: list[TokenLogprob]) -> float:
    """Return the grade of an answer that begins with a digit, 0 to 1; NaN of any other."""
    probabilities = [
        (_DIGITS[each.text.strip()], math.exp(each.logprob))
        for position in logprobs[:1]
        for each in position.top
        if each.text.strip() in _DIGITS
    ]
    if of_digits := math.fsum(probability for _, probability in probabilities):
        return math.fsum(digit * probability for digit, probability in probabilities) / of_digits / HIGHEST
    return _DIGITS.get(text.strip()[:1], math.nan) / HIGHEST
