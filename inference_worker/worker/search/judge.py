"""Has the paths of a search graded by a chat model that acts as a judge: a child job for each path.

The judge's answer is held to one digit by a grammar. The score is the digits' mean under the model's own probabilities,
which tells paths apart to which it would give the same digit (G-Eval, Liu et al. 2023, arXiv:2303.16634).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from contextlib import aclosing

import msgspec

from inference_worker.search.events import PathScore, Score, Scored
from inference_worker.worker.search.attempt import SearchAttempt
from router.messages import (
    ChatPrompt,
    Delta,
    Finished,
    Grammar,
    GrammarKind,
    Job,
    SamplingParams,
    TokenLogprob,
    Usage,
)
from router.producer.child_jobs import ChildJobs, ChildRequest

HIGHEST = 9
_DIGITS = {str(digit): digit for digit in range(HIGHEST + 1)}
_GRAMMAR = Grammar(kind=GrammarKind.CHOICE, source=msgspec.json.encode(list(_DIGITS)).decode())
_ALTERNATIVES = 20
"""Most probable tokens whose probabilities are asked for."""
_QUESTION = (
    "Grade the answer above, which may be unfinished: how likely is it that it is right so far and will end with the"
    f" right result? Write one digit, from 0 (it has a mistake) to {HIGHEST} (it is certainly right)."
)


async def grades_of(command: Score, attempt: SearchAttempt, children: ChildJobs, *, deadline: float) -> Scored:
    """Have a chat model grade the paths of `command`, by one child job for each path, and return the grades as
    `Scored`.

    A grade is 0 to 1, or NaN for a path that the judge did not grade. Cancelling the call cancels the child jobs.

    Args:
        command: the paths, with the texts of their steps.
        attempt: the job whose answer is searched for.
        children: opens the child jobs.
        deadline: when the job must have ended, by this machine's clock.

    Raises:
        ChildJobError: a child job has failed; the others are cancelled.
    """
    job = msgspec.structs.replace(attempt.job, deadline=deadline)
    headers = attempt.delivery.headers
    grading = [
        asyncio.create_task(_graded(job, _request(attempt, index, "".join(steps)), children, headers))
        for index, steps in enumerate(command.texts)
    ]
    try:
        graded = await asyncio.gather(*grading)
    finally:
        for task in grading:
            task.cancel()
        await asyncio.gather(*grading, return_exceptions=True)
    usages = [usage for _, usage in graded]
    return Scored(
        [PathScore([grade]) for grade, _ in graded],
        tokens=sum(usage.prompt_tokens for usage in usages),
        written=sum(usage.completion_tokens for usage in usages),
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
    job: Job, request: ChildRequest, children: ChildJobs, headers: Mapping[str, object]
) -> tuple[float, Usage]:
    grade, usage = math.nan, Usage(prompt_tokens=0)
    async with aclosing(children.replies(job, request, headers)) as replies:
        async for reply in replies:
            if isinstance(reply, Delta) and math.isnan(grade):
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
    if total := math.fsum(probability for _, probability in probabilities):
        return math.fsum(digit * probability for digit, probability in probabilities) / total / HIGHEST
    return _DIGITS.get(text.strip()[:1], math.nan) / HIGHEST
