"""Builds a worker's replies about the prompt itself (`echo`, `prompt_logprobs`): ids, text and log probabilities.

The log probabilities of long prompts are split over several replies.
"""

from __future__ import annotations

from collections.abc import Iterator

from inference_worker.engine_protocol import PromptScores
from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.worker.text.logprobs import token_logprob
from router.messages import Job, PromptEcho, PromptLogprobs, TextPrompt

MAX_POSITIONS = 128
"""Maximum positions of one reply: about 100 kB of JSON with 20 alternatives each."""


def prompt_echo(tokenizer: Tokenizer, job: Job, attempt_id: str, prompt_ids: list[int]) -> PromptEcho:
    """Build the reply with the ids and the text of a job's prompt, for the option `echo`.

    A text prompt that was not truncated is returned as sent, any other prompt is decoded.
    """
    whole = isinstance(job.prompt, TextPrompt) and job.text.truncate_prompt_tokens is None
    text = (
        job.prompt.text
        if isinstance(job.prompt, TextPrompt) and whole
        else tokenizer.decode(prompt_ids, skip_controls=job.text.skip_special_tokens)
    )
    return PromptEcho(
        job_id=job.id,
        attempt_id=attempt_id,
        token_ids=prompt_ids,
        text=text,
        first_text=tokenizer.token_text(prompt_ids[0]),
    )


def prompt_logprobs(tokenizer: Tokenizer, job: Job, attempt_id: str, scores: PromptScores) -> Iterator[PromptLogprobs]:
    """Yield the replies with the log probabilities of a job's prompt tokens that an engine step reported as `scores`.

    Long prompts take several replies.
    """
    for start in range(0, len(scores.logprobs), MAX_POSITIONS):
        part = slice(start, start + MAX_POSITIONS)
        yield PromptLogprobs(
            job_id=job.id,
            attempt_id=attempt_id,
            start=scores.start + start,
            logprobs=[token_logprob(tokenizer, one) for one in scores.logprobs[part]],
            ranks=scores.ranks[part],
        )
