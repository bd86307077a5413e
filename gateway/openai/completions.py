"""The request and the answer of `/v1/completions`.

Source: `CreateCompletionRequest`, `CreateCompletionResponse` of OpenAI's specification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel, Refused
from gateway.openai.sampling import INT32_MAX, SamplingRequest
from gateway.openai.usage import CompletionUsage

MAX_PROMPTS = 64
DEFAULT_MAX_TOKENS = 16

Prompts = Sequence[str | list[int]]
"""All strings, or all token lists."""

_TEXT = {"type": "string", "minLength": 1}
_TOKENS = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": INT32_MAX}, "minItems": 1}
PROMPT_SCHEMA = {
    "anyOf": [
        _TEXT,
        _TOKENS,
        {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": MAX_PROMPTS},
        {"type": "array", "items": _TOKENS, "minItems": 1, "maxItems": MAX_PROMPTS},
    ]
}


def read_prompts(value: Any) -> Prompts:
    """The four shapes of `prompt` as a list of strings or a list of token lists, none of them empty."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and value and all(type(item) is int for item in value):
        value = [value]
    if not isinstance(value, list) or not value:
        raise _wrong("it must be a string, a list of strings, a list of token ids, or a list of lists of token ids")
    if len(value) > MAX_PROMPTS:
        raise _wrong(f"a request can have at most {MAX_PROMPTS} prompts")
    if any(item in ("", []) for item in value):
        raise _wrong("a prompt must not be empty")
    if all(isinstance(item, str) for item in value):
        return value
    if not all(isinstance(item, list) and all(type(token) is int for token in item) for item in value):
        raise _wrong("strings, token ids and other values can't be mixed")
    if any(min(item) < 0 or max(item) > INT32_MAX for item in value):
        raise _wrong("a token id is not in the vocabulary")
    return value


def _wrong(message: str) -> PydanticCustomError:
    return PydanticCustomError("invalid_value", "{message}", {"message": message})


class CompletionRequest(SamplingRequest):
    """Body of `POST /v1/completions`."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        **SamplingRequest.not_offered,
        "add_special_tokens": Refused("a text begins as the model was trained with", (True,)),
        "suffix": Refused("not offered yet", ("",)),
        "prompt_embeds": Refused("prompts are text or token ids"),
    }

    prompt: Annotated[Prompts, PlainValidator(read_prompts), WithJsonSchema(PROMPT_SCHEMA)]
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
