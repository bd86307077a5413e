"""Answers tokenisation jobs in the worker, beside running generations: no slot, nothing in the engine, no tokens used.

Sources: `TokenizeResponse` and `DetokenizeResponse` of vLLM. Must not import torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from inference_worker.errors import PromptRejected
from router.consumer.attempts import Attempt
from router.consumer.job_consumer import JobConsumer
from router.messages import Finished, Started, TokenisationPrompt, Tokenised, Usage

A = TypeVar("A", bound=Attempt)

MAX_TOKENS = 300_000
"""Most token ids of a reply, which has to fit into one message."""


@dataclass(frozen=True)
class TokenList:
    """The tokens of a prompt as far as they are requested: their number, ids and names, or the text of token ids."""

    count: int
    ids: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    text: str = ""

    @classmethod
    def of(cls, ids: Sequence[int], prompt: TokenisationPrompt, name_of: Callable[[int], str]) -> TokenList:
        """Return what `prompt` requests of its tokens `ids`; `name_of` returns a token's name in the vocabulary.

        Raises:
            PromptRejected: the ids do not fit into one message.
        """
        if prompt.count_only:
            return cls(len(ids))
        if len(ids) > MAX_TOKENS:
            message = f"The prompt has {len(ids)} tokens; the ids of at most {MAX_TOKENS} are returned."
            raise PromptRejected(message, "prompt")
        return cls(len(ids), list(ids), [name_of(each) for each in ids] if prompt.names else [])


def send_tokens(consumer: JobConsumer[A], attempt: A, tokens: TokenList, worker: str) -> None:
    """Send the tokens of an attempt's prompt to its gateway, and end the attempt; no effect if it has ended.

    `worker` is the worker's id.
    """
    if attempt.ended:
        return
    job_id, attempt_id, gateway = attempt.job.id, attempt.attempt_id, attempt.job.reply_to
    deliveries = attempt.delivery.delivery_count
    consumer.outbox.put(
        gateway,
        Started(job_id=job_id, attempt_id=attempt_id, worker_id=worker, prompt_tokens=0, delivery_count=deliveries),
    )
    consumer.outbox.put(
        gateway,
        Tokenised(
            job_id=job_id,
            attempt_id=attempt_id,
            count=tokens.count,
            token_ids=tokens.ids,
            names=tokens.names,
            text=tokens.text,
        ),
    )
    consumer.end(attempt, Finished(job_id=job_id, attempt_id=attempt_id, usage=Usage(prompt_tokens=0)))
