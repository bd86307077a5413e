"""What every spelling of an answer has in common: its head, and finished choices."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from gateway.admission.admit import Body, Reservation
from gateway.answers.event_frames import ChunkFrames
from gateway.jobs.echoed_prompt import EchoedPrompt
from gateway.jobs.generation import Generation
from gateway.openai.prompt_logprobs import PromptLogprob
from gateway.openai.usage import CompletionUsage
from router.messages import FinishReason, Job, ServiceClass, TokenAlternative, TokenLogprob, ToolCallDelta

LOWEST_LOGPROB = -9999.0
"""What OpenAI reports for a token that is all but impossible; JSON has no -Infinity."""


@dataclass(frozen=True)
class Head:
    """The fields that repeat in every chunk of an answer."""

    id: str
    created: int
    model: str
    service_tier: ServiceClass
    system_fingerprint: str

    @classmethod
    def of(cls, job: Job, reservation: Reservation) -> Head:
        """The head of the answer that begins with `job`."""
        model = reservation.model
        version = hashlib.sha256(f"{model.name} {model.max_model_len}".encode()).hexdigest()[:10]
        return cls(job.id, int(job.created), model.name, reservation.service_class, f"fp_{version}")

    def fields(self, kind: str) -> dict[str, Any]:
        """What every chunk of a stream begins with."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "service_tier": self.service_tier.value,
            "system_fingerprint": self.system_fingerprint,
        }


@dataclass
class Collected:
    """A choice as far as it has come."""

    text: list[str] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    calls: list[ToolCallDelta] = field(default_factory=list)
    finish_reason: FinishReason | None = None


@dataclass(frozen=True)
class Wishes:
    """What a client wants to see besides the text: with how many alternatives where it is a number, `None`: not."""

    logprobs: int | None = None
    prompt_logprobs: int | None = None
    echo: bool = False
    token_ids: bool = False
    tokens_as_ids: bool = False
    usage: bool = False
    """At the end of a stream."""

    @classmethod
    def of(cls, body: Body) -> Wishes:
        """What a request asks for."""
        return cls(
            logprobs=body.top_logprobs_wanted,
            prompt_logprobs=body.prompt_logprobs,
            echo=bool(body.echo),
            token_ids=bool(body.return_token_ids),
            tokens_as_ids=bool(body.return_tokens_as_token_ids),
            usage=body.include_usage,
        )

    def name(self, token: TokenAlternative) -> str:
        """A token in a list of log probabilities."""
        return f"token_id:{token.id}" if self.tokens_as_ids else token.text


def prompt_logprobs(prompt: EchoedPrompt, alternatives: int) -> list[dict[int, PromptLogprob] | None]:
    """vLLM's `prompt_logprobs`: of each token but the first, and of the likeliest ones at its position, by id."""
    told: list[dict[int, PromptLogprob] | None] = [None]
    for position, rank in zip(prompt.logprobs, prompt.ranks, strict=True):
        ranked = [(rank, position.chosen), *enumerate(position.top[:alternatives], 1)]
        told.append(
            {
                token.id: PromptLogprob(logprob=bounded(token.logprob), rank=place, decoded_token=token.text)
                for place, token in reversed(ranked)
            }
        )
    return told


def ending(frames: ChunkFrames, wishes: Wishes, generation: Generation) -> str:
    """What follows the last batch of a stream; nothing while there is more to come."""
    if not (wishes.usage and generation.finished):
        return ""
    return frames.usage(CompletionUsage.of(generation.usage).model_dump())


def bounded(logprob: float) -> float:
    """A log probability that JSON can carry."""
    return max(logprob, LOWEST_LOGPROB)
