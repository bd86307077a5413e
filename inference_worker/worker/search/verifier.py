"""Has the paths of a search scored by its verifier: one child job at a reward model."""

from __future__ import annotations

from contextlib import aclosing

import msgspec

from inference_worker.search.events import PathScore, Score, Scored, Unread
from inference_worker.worker.search.attempt import SearchAttempt
from router import messages
from router.messages import ChatPrompt, FailureCode, Finished, SamplingParams, ScorePrompt
from router.producer.child_jobs import ChildJobs, ChildRequest
from router.producer.errors import JobFailed

PARAM = "test_time_compute"
"""Request field that searches come from, for error messages."""
UNREAD = (FailureCode.TOO_MANY_TOKENS, FailureCode.CONTEXT_LENGTH_EXCEEDED)
"""Failures of child jobs that say that a verifier can't read the paths. The search ends, and is billed."""


async def scores_of(command: Score, attempt: SearchAttempt, children: ChildJobs, *, deadline: float) -> Scored | Unread:
    """Have the search's verifier score the paths of `command`, by one child job, and return the scores as `Scored`.

    `Unread` if the paths have more tokens than the verifier may read, or one has more than its context. Cancelling
    the call cancels the child job.

    Args:
        command: the paths, with the texts of their steps.
        attempt: the job whose answer is searched for.
        children: opens the child job.
        deadline: when the job must have ended, by this machine's clock.

    Raises:
        ChildJobError: the child job has failed.
    """
    job, search = msgspec.structs.replace(attempt.job, deadline=deadline), attempt.search
    request = ChildRequest(
        step=f"v{len(attempt.steps)}",
        model=search.verifier,
        prompt=ScorePrompt(
            contexts=[job.prompt.messages if isinstance(job.prompt, ChatPrompt) else ""],
            candidates=[[step.removesuffix(search.separator) for step in steps] for steps in command.texts],
            separator=search.separator,
            max_tokens=command.max_tokens,
            param=PARAM,
        ),
        sampling=SamplingParams(seed=job.sampling.seed),
    )
    scores: dict[int, PathScore] = {}
    tokens = 0
    try:
        async with aclosing(children.replies(job, request, attempt.delivery.headers)) as replies:
            async for reply in replies:
                if isinstance(reply, messages.Scored):
                    steps = reply.step_scores or [[score] for score in reply.scores]
                    scores.update(enumerate(map(PathScore, steps), start=reply.start))
                elif isinstance(reply, Finished):
                    tokens = reply.usage.prompt_tokens
    except JobFailed as error:
        if error.failure in UNREAD:
            return Unread()
        raise
    return Scored([scores[index] for index in range(len(command.texts))], tokens)
