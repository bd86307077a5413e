"""The request and the answer of `/v1/completions`.

Source: `CreateCompletionRequest`, `CreateCompletionResponse` of OpenAI's specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PlainValidator, StringConstraints, WithJsonSchema, model_validator

from gateway.openai.base import ApiModel, Extra, Refused, contradiction
from gateway.openai.prompt_logprobs import PromptLogprobs
from gateway.openai.prompts import Prompts, prompts_schema, prompts_up_to
from gateway.openai.sampling import INT32_MAX, SamplingRequest
from gateway.openai.usage import CompletionUsage

MAX_PROMPTS = 64
MAX_SUFFIX = 1_000_000
DEFAULT_MAX_TOKENS = 16


class CompletionRequest(SamplingRequest):
    """Body of `POST /v1/completions`."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        **SamplingRequest.not_offered,
        "add_special_tokens": Refused("a text begins as the model was trained with", (True,)),
        "prompt_embeds": Refused("prompts are text or token ids"),
    }

    prompt: Annotated[Prompts, PlainValidator(prompts_up_to(MAX_PROMPTS)), WithJsonSchema(prompts_schema(MAX_PROMPTS))]
    """Text, token ids, or a list of either: up to 64 prompts, none of them empty, each answered `n` times."""
    suffix: Annotated[str, StringConstraints(max_length=MAX_SUFFIX)] | None = None
    """Fill in between a text and this, by models whose vocabulary has tokens for it; others answer 400."""
    max_tokens: Annotated[int, Field(ge=0, le=INT32_MAX)] | None = None
    """Tokens to generate at most, default 16; 0 with `echo` and `logprobs` only looks at the prompt."""
    echo: bool | None = None
    """The answer begins with the prompt; with `logprobs` so do they, null for the first token."""
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    """The log probability of each token of the answer, and so many of the most likely ones at its position."""

    @model_validator(mode="after")
    def _consistent_completion(self) -> Self:
        if self.suffix and not all(isinstance(prompt, str) for prompt in self.prompt):
            raise contradiction("suffix", "it needs prompts that are text")
        return self

    @property
    def token_limit(self) -> int | None:
        """16 unless said otherwise, as the specification has it."""
        return self.max_tokens if self.max_tokens is not None else DEFAULT_MAX_TOKENS

    @property
    def prompt_logprobs_wanted(self) -> int | None:
        """`prompt_logprobs`, or as many as `logprobs` if the prompt is echoed."""
        echoed = self.logprobs if self.echo else None
        wanted = [count for count in (self.prompt_logprobs, echoed) if count is not None]
        return max(wanted, default=None)

    @property
    def prompt_wanted(self) -> bool:
        """Whether the answer has anything of the prompt in it."""
        return bool(self.echo) or super().prompt_wanted

    @property
    def top_logprobs_wanted(self) -> int | None:
        """`logprobs` itself."""
        return self.logprobs


class CompletionLogprobs(ApiModel):
    """Log probabilities of a choice's tokens; offsets count characters of its text. The first of a prompt has none."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(ApiModel):
    """Choice `prompt * n + choice`."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length", "content_filter"] | None
    token_ids: Extra[list[int]] = None
    prompt_token_ids: Extra[list[int]] = None
    prompt_logprobs: Extra[PromptLogprobs] = None


class Completion(ApiModel):
    """The answer; also one frame of its stream (then `usage` is absent, null, or in the last frame)."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    service_tier: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: CompletionUsage | None = None
