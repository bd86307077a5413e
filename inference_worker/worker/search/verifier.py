"""Scores of a search's paths by the verifier: a child job at that model's workers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing

from inference_worker.search.events import PathScore, Score
from inference_worker.search.events import Scored as PathsScored
from router.messages import ChatPrompt, Finished, Job, SamplingParams, Scored, ScorePrompt
from router.producer.child_jobs import ChildJobs, ChildRequest


async def score_paths(
    children: ChildJobs, job: Job, headers: Mapping[str, object], score: Score, step: int
) -> PathsScored:
    """Have the verifier of `job.search` score paths, and return the event of their scores.

    Cancelling the call, or `ChildJobs.cancel`, cancels the child job.

    Args:
        children: opens child jobs.
        job: the job with the search, its deadline by this machine's clock.
        headers: headers of the job's message, with its trace.
        score: the paths and their texts.
        step: number of the search's step, which names the child job.

    Raises:
        GenerationError: the child job failed or was cancelled, or no worker serves the verifier.
        PublishError: the broker took no job for too long, or the model has no queue.
        TooManyAncestors: the job is a child job of too many others.
    """
    search = job.search
    if search is None or not isinstance(job.prompt, ChatPrompt):
        raise ValueError("only conversations are searched for")
    prompt = ScorePrompt(
        contexts=[job.prompt.messages],
        candidates=[[text.strip() or text for text in texts] for texts in score.texts],
        separator=search.separator,
        param="test_time_compute.verifier",
    )
    request = ChildRequest(f"v{step}", search.verifier, prompt, SamplingParams(seed=0))
    found: dict[int, PathScore] = {}
    read = tokens = 0
    async with aclosing(children.replies(job, request, headers)) as replies:
        async for reply in replies:
            if isinstance(reply, Scored):
                steps = reply.step_scores or [[each] for each in reply.scores]
                found.update(zip(reply.indexes, map(PathScore, steps), strict=True))
                read += reply.tokens
            elif isinstance(reply, Finished):
                tokens = reply.usage.prompt_tokens
    return PathsScored([found[index] for index in range(len(score.paths))], tokens or read)
