"""The request and the answer of `/v1/completions`.

Source: `CreateCompletionRequest`, `CreateCompletionResponse` of OpenAI's specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PlainValidator, WithJsonSchema

from gateway.openai.base import ApiModel, Refused
from gateway.openai.prompts import Prompts, prompts_schema, prompts_up_to
from gateway.openai.sampling import SamplingRequest
from gateway.openai.usage import CompletionUsage

MAX_PROMPTS = 64
DEFAULT_MAX_TOKENS = 16


class CompletionRequest(SamplingRequest):
    """Body of `POST /v1/completions`."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        **SamplingRequest.not_offered,
        "add_special_tokens": Refused("a text begins as the model was trained with", (True,)),
        "suffix": Refused("not offered yet", ("",)),
        "prompt_embeds": Refused("prompts are text or token ids"),
    }

    prompt: Annotated[Prompts, PlainValidator(prompts_up_to(MAX_PROMPTS)), WithJsonSchema(prompts_schema(MAX_PROMPTS))]
    """Text, token ids, or a list of either: up to 64 prompts, none of them empty, each answered `n` times."""
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    """The log probability of each token of the answer, and so many of the most likely ones at its position."""

    @property
    def token_limit(self) -> int | None:
        """16 unless said otherwise, as the specification has it."""
        return self.max_tokens if self.max_tokens is not None else DEFAULT_MAX_TOKENS

    @property
    def top_logprobs_wanted(self) -> int | None:
        """`logprobs` itself."""
        return self.logprobs


class CompletionLogprobs(ApiModel):
    """Log probabilities of a choice's tokens; offsets count characters of its text."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class CompletionChoice(ApiModel):
    """Choice `prompt * n + choice`."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length", "content_filter"] | None


class Completion(ApiModel):
    """The answer; also one frame of its stream (then `usage` is absent, null, or in the last frame)."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: CompletionUsage | None = None
