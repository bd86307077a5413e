"""Limits of a generating model, and the checks of prompts and token ids against them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from inference_worker.errors import PromptRejected
from router.messages import ChatPrompt, FailureCode, Job, SamplingParams


@dataclass(frozen=True)
class ModelLimits:
    """The engine's limits for one model: context length in tokens; token ids are below `vocab_size`."""

    max_model_len: int
    vocab_size: int


def tokens_wanted(job: Job) -> int:
    """Return the `max_tokens` of a job; 1 if it has none, as each answer has a token."""
    return job.sampling.max_tokens if job.sampling.max_tokens is not None else 1


def check_prompt(prompt_ids: list[int], job: Job, limits: ModelLimits) -> None:
    """Check that the context has room for the prompt of a job and for its answer.

    Raises:
        PromptRejected: it has not, or the prompt is empty, or has ids that the model does not have.
    """
    if not prompt_ids:
        raise PromptRejected("The prompt is empty.", "prompt")
    check_ids("prompt", prompt_ids, limits)
    if len(prompt_ids) + tokens_wanted(job) > limits.max_model_len:
        raise too_long(len(prompt_ids), job, limits)


def check_token_options(sampling: SamplingParams, limits: ModelLimits) -> None:
    """Check the seed, and the token ids that sampling options name.

    Raises:
        PromptRejected: the seed has more than 64 bits, or the model does not have an id.
    """
    if not -(2**63) <= sampling.seed < 2**63:
        raise PromptRejected("The seed must fit into 64 bits.", "seed")
    check_ids("logit_bias", sampling.logit_bias, limits)
    check_ids("stop_token_ids", sampling.stop_token_ids, limits)
    check_ids("allowed_token_ids", sampling.allowed_token_ids or (), limits)


def check_ids(param: str, ids: Iterable[int], limits: ModelLimits) -> None:
    """Raise `PromptRejected`, which names the parameter `param`, unless the model has all token ids."""
    outside = next((id_ for id_ in ids if not 0 <= id_ < limits.vocab_size), None)
    if outside is not None:
        message = f"Token id {outside} is outside the model's vocabulary of {limits.vocab_size}."
        raise PromptRejected(message, param)


def too_long(prompt_tokens: int, job: Job, limits: ModelLimits) -> PromptRejected:
    """Return the rejection in OpenAI's wording, which clients search for."""
    chat = isinstance(job.prompt, ChatPrompt)
    limit = f"This model's maximum context length is {limits.max_model_len} tokens."
    if prompt_tokens >= limits.max_model_len:
        detail = (
            f"However, your messages resulted in {prompt_tokens} tokens. Please reduce the length of the messages."
            if chat
            else f"However, your prompt has {prompt_tokens} tokens. Please reduce the length of the prompt."
        )
    else:
        wanted = job.sampling.max_tokens or 1
        detail = (
            f"However, you requested {prompt_tokens + wanted} tokens ({prompt_tokens} in the "
            f"{'messages' if chat else 'prompt'}, {wanted} in the completion). Please reduce the length of the "
            f"{'messages' if chat else 'prompt'} or completion."
        )
    return PromptRejected(f"{limit} {detail}", "messages" if chat else "prompt", FailureCode.CONTEXT_LENGTH_EXCEEDED)
