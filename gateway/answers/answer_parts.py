"""Parts that the gateway's response formats share: metadata, requested options, whole choices, log probabilities."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from gateway.admission.controller import AdmittedRequest, GenerationRequest
from gateway.answers.event_frames import ChunkFrames
from gateway.jobs.generation import Generation
from gateway.jobs.prompt_echo import EchoedPrompt
from gateway.openai.prompt_logprobs import PromptLogprob, PromptLogprobs
from gateway.openai.usage import CompletionUsage
from router.messages import Delta, FinishReason, Job, ServiceClass, Step, TokenAlternative, TokenLogprob, ToolCallDelta

LOWEST_LOGPROB = -9999.0
"""Lowest log probability that is reported, as by OpenAI, because JSON has no -Infinity."""


@dataclass(frozen=True)
class AnswerMetadata:
    """Fields such as id, time and model that a response and all chunks of its stream carry."""

    id: str
    created: int
    model: str
    service_tier: ServiceClass
    system_fingerprint: str

    @classmethod
    def of(cls, job: Job, admitted: AdmittedRequest) -> AnswerMetadata:
        """Create the metadata (id, time, model, ...) of the answer to an admitted request, whose first job is `job`."""
        model = admitted.model
        version = hashlib.sha256(f"{model.name} {model.max_model_len}".encode()).hexdigest()[:10]
        return cls(job.id, int(job.created), model.name, admitted.service_class, f"fp_{version}")

    def fields(self, kind: str) -> dict[str, Any]:
        """Return the answer's metadata as JSON fields; `kind` is the value of `object`, such as `chat.completion`."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "service_tier": self.service_tier.value,
            "system_fingerprint": self.system_fingerprint,
        }


@dataclass
class CollectedChoice:
    """One choice of an answer, assembled from its deltas: for a response without streaming, or to be stored."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    calls: list[ToolCallDelta] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    """The ended steps before the answer."""
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    """Stop string or token id that ended the choice, if any."""

    def take(self, delta: Delta) -> None:
        """Add one delta of this choice."""
        self.text.append(delta.text)
        self.reasoning.append(delta.reasoning)
        self.ids.extend(delta.token_ids)
        self.logprobs.extend(delta.logprobs or [])
        self.calls.extend(delta.tool_calls or [])
        self.finish_reason, self.stop_reason = delta.finish_reason, delta.stop_reason
        if delta.step is not None and delta.step.state.ended:
            self.steps.append(delta.step)


@dataclass(frozen=True)
class AnswerOptions:
    """The optional parts that a request selects for its answer, such as log probabilities and usage.

    `logprobs` and `prompt_logprobs` are numbers of most likely tokens per position; `None`: no log probabilities.
    """

    logprobs: int | None = None
    prompt_logprobs: int | None = None
    echo: bool = False
    token_ids: bool = False
    tokens_as_ids: bool = False
    usage: bool = False
    """Whether a stream ends with its usage."""

    @classmethod
    def of(cls, body: GenerationRequest) -> AnswerOptions:
        """Return which optional parts of an answer, such as log probabilities, a request body selects."""
        return cls(
            logprobs=body.top_logprob_count,
            prompt_logprobs=body.prompt_logprobs,
            echo=bool(body.echo),
            token_ids=bool(body.return_token_ids),
            tokens_as_ids=bool(body.return_tokens_as_token_ids),
            usage=body.include_usage,
        )

    def name(self, token: TokenAlternative) -> str:
        """Return a token's name in lists of log probabilities: its text, or `token_id:N` if the request says so."""
        return f"token_id:{token.id}" if self.tokens_as_ids else token.text

    def usage_chunk(self, frames: ChunkFrames, generation: Generation) -> str:
        """Return a stream's last frame, with the usage, if requested and if the generation has finished, else ""."""
        if not (self.usage and generation.finished):
            return ""
        return frames.usage(CompletionUsage.of(generation.usage, generation.parts).model_dump())


def prompt_logprobs(prompt: EchoedPrompt, alternatives: int | None) -> PromptLogprobs | None:
    """Return a prompt's log probabilities in vLLM's format: at each position its token and `alternatives` likely ones.

    The first position has `None`. If `alternatives` is `None`, none were requested, and the result is `None`.
    """
    if alternatives is None:
        return None
    positions: PromptLogprobs = [None]
    for position, rank in zip(prompt.logprobs, prompt.ranks, strict=True):
        ranked = [(rank, position.chosen), *enumerate(position.top[:alternatives], 1)]
        positions.append(
            {
                token.id: PromptLogprob(logprob=bounded(token.logprob), rank=each_rank, decoded_token=token.text)
                for each_rank, token in reversed(ranked)
            }
        )
    return positions


def bounded(logprob: float) -> float:
    """Return `logprob` for a JSON body: minus infinity, which JSON lacks, becomes a finite minimum."""
    return max(logprob, LOWEST_LOGPROB)
