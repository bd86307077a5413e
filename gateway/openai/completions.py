"""Request and response models of `/v1/completions`.

Source: `CreateCompletionRequest`, `CreateCompletionResponse` of OpenAI's specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PlainValidator, StringConstraints, WithJsonSchema, model_validator

from gateway.openai.base import Answer, ApiModel, OmitIfNone, Refused, conflict
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
        "use_beam_search": Refused("only the answers of chats are searched for", (False,)),
        "length_penalty": Refused("it belongs to beam search", (1, 1.0)),
        "early_stopping": Refused("it belongs to beam search", (False,)),
        "add_special_tokens": Refused("a text begins as the model was trained with", (True,)),
        "thinking_token_budget": Refused("reasoning is found in the answers of chats only", (-1,)),
        "prompt_embeds": Refused("prompts are text or token ids"),
    }

    prompt: Annotated[Prompts, PlainValidator(prompts_up_to(MAX_PROMPTS)), WithJsonSchema(prompts_schema(MAX_PROMPTS))]
    """Text, token ids, or a list of either: up to 64 prompts, none of them empty, each with `n` choices."""
    suffix: Annotated[str, StringConstraints(max_length=MAX_SUFFIX)] | None = None
    """Text after the insertion (fill-in-the-middle); models whose vocabulary has no tokens for it answer 400."""
    max_tokens: Annotated[int, Field(ge=0, le=INT32_MAX)] | None = None
    """Maximum number of tokens to generate, default 16; 0 with `echo` and `logprobs` only scores the prompt."""
    echo: bool | None = None
    """Begin the answer with the prompt. With `logprobs`, those of the prompt come first, null for its first token."""
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    """Return the log probability of each token of the answer, and of so many of the most likely tokens."""

    @model_validator(mode="after")
    def _consistent_completion(self) -> Self:
        if self.suffix and not all(isinstance(prompt, str) for prompt in self.prompt):
            raise conflict("suffix", "it needs prompts that are text")
        return self

    @property
    def token_limit(self) -> int | None:
        """Maximum number of tokens to generate: `max_tokens`, or the specification's default of 16."""
        return self.max_tokens if self.max_tokens is not None else DEFAULT_MAX_TOKENS

    @property
    def prompt_logprob_count(self) -> int | None:
        """Number of most likely tokens to return at each prompt position, with `echo` at least `logprobs`.

        `None`: none.
        """
        echoed = self.logprobs if self.echo else None
        counts = [count for count in (self.prompt_logprobs, echoed) if count is not None]
        return max(counts, default=None)

    @property
    def returns_prompt(self) -> bool:
        """Whether the response contains any part of the prompt, such as its text or log probabilities."""
        return bool(self.echo) or super().returns_prompt

    @property
    def top_logprob_count(self) -> int | None:
        """Number of most likely tokens to return at each position (`logprobs`); `None`: no log probabilities."""
        return self.logprobs


class CompletionLogprobs(ApiModel):
    """Log probabilities of a choice's tokens. Offsets count characters of its text; a prompt's first token has null."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(ApiModel):
    """One choice of a completion; `index` is the prompt's number times `n` plus the choice's number."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length", "content_filter"] | None
    token_ids: OmitIfNone[list[int]] = None
    prompt_token_ids: OmitIfNone[list[int]] = None
    prompt_logprobs: OmitIfNone[PromptLogprobs] = None


class Completion(Answer):
    """The response; also one event of its stream (then `usage` is absent, null, or in the last event)."""

    object: Literal["text_completion"] = "text_completion"
    choices: list[CompletionChoice]
    usage: CompletionUsage | None = None
