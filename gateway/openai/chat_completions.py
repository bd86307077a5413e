"""The request and the answer of `/v1/chat/completions`.

Source: `CreateChatCompletionRequest`, `CreateChatCompletionResponse`, `CreateChatCompletionStreamResponse` of OpenAI's
specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel, Neutral
from gateway.openai.messages import AssistantMessage, Message, check_tool_results
from gateway.openai.sampling import INT32_MAX, SamplingRequest
from gateway.openai.usage import CompletionUsage

MAX_MESSAGES = 2048
RESERVED_TEMPLATE_ARGUMENTS = frozenset(
    {
        "add_generation_prompt",
        "chat_template",
        "continue_final_message",
        "conversation",
        "documents",
        "max_length",
        "messages",
        "padding",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "tokenize",
        "tokenizer_kwargs",
        "tools",
        "truncation",
    }
)
"""Arguments of `apply_chat_template` itself: never a client's to set."""

TemplateName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
TemplateValue = bool | int | float | Annotated[str, StringConstraints(max_length=1024)] | None


class ChatCompletionRequest(SamplingRequest):
    """Body of `POST /v1/chat/completions`."""

    not_offered: ClassVar[Mapping[str, Neutral]] = {
        **SamplingRequest.not_offered,
        "tools": ([],),
        "tool_choice": ("none", "auto"),
        "functions": ([],),
        "function_call": ("none", "auto"),
        "audio": (),
        "modalities": (["text"],),
        "prediction": (),
        "web_search_options": (),
        "moderation": (),
        "chat_template": (),
        "documents": ([],),
        "mm_processor_kwargs": (),
    }

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    """Accepted and ignored, like `verbosity`, by models that do not know it."""
    verbosity: Literal["low", "medium", "high"] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: Annotated[dict[TemplateName, TemplateValue], Field(max_length=32)] | None = None

    @field_validator("messages")
    @classmethod
    def _tool_results(cls, messages: list[Message]) -> list[Message]:
        check_tool_results(messages)
        return messages

    @field_validator("chat_template_kwargs")
    @classmethod
    def _template_arguments(cls, values: dict[str, Any] | None) -> dict[str, Any] | None:
        if values and RESERVED_TEMPLATE_ARGUMENTS & values.keys():
            raise PydanticCustomError("invalid_value", "only variables that the template reads can be set")
        return values

    @model_validator(mode="after")
    def _consistent_chat(self) -> Self:
        if self.top_logprobs is not None and not self.logprobs:
            raise PydanticCustomError("invalid_value", "'top_logprobs' is only allowed when 'logprobs' is true")
        if self.continue_final_message and self.add_generation_prompt:
            raise PydanticCustomError(
                "invalid_value", "'continue_final_message' and 'add_generation_prompt' exclude each other"
            )
        if self.continue_final_message and not isinstance(self.messages[-1], AssistantMessage):
            raise PydanticCustomError(
                "invalid_value", "'continue_final_message' needs a last message from the assistant"
            )
        return self

    @property
    def token_limit(self) -> int | None:
        """`max_completion_tokens`, or its deprecated name."""
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens

    @property
    def top_logprobs_wanted(self) -> int | None:
        """`top_logprobs` if logprobs are wanted at all."""
        return (self.top_logprobs or 0) if self.logprobs else None


class TopLogprob(ApiModel):
    """One candidate token; `bytes` is its UTF-8."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(TopLogprob):
    """The chosen token and the most likely candidates at its position."""

    top_logprobs: list[TopLogprob]


class ChoiceLogprobs(ApiModel):
    """Log probabilities of a message's tokens."""

    content: list[TokenLogprob] | None
    refusal: list[TokenLogprob] | None


class ChatAnswerMessage(ApiModel):
    """What the model said."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: str | None


class ChatChoice(ApiModel):
    """One of the `n` answers."""

    index: int
    message: ChatAnswerMessage
    logprobs: ChoiceLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"]


class ChatCompletion(ApiModel):
    """The answer without streaming."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    service_tier: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: CompletionUsage


class ChatDelta(ApiModel):
    """What a chunk adds to a choice's message; only the keys that are sent."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    refusal: str | None = None


class ChatChunkChoice(ApiModel):
    """A chunk's part of one choice."""

    index: int
    delta: ChatDelta
    logprobs: ChoiceLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"] | None


class ChatCompletionChunk(ApiModel):
    """One frame of the stream."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    service_tier: str
    system_fingerprint: str
    choices: list[ChatChunkChoice]
    usage: CompletionUsage | None = None
