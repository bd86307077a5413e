"""Response models of `/v1/chat/completions`: the whole answer, and the chunks of a stream.

Source: `CreateChatCompletionResponse`, `CreateChatCompletionStreamResponse` of OpenAI's specification.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway.openai.base import Answer, ApiModel, OmitIfNone
from gateway.openai.messages import FunctionCall, ToolCall
from gateway.openai.prompt_logprobs import PromptLogprobs
from gateway.openai.steps import AnswerStep
from gateway.openai.usage import CompletionUsage


class TopLogprob(ApiModel):
    """A token, its log probability, and its text as UTF-8 `bytes`."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(TopLogprob):
    """The sampled token and the most likely tokens at its position."""

    top_logprobs: list[TopLogprob]


class ChoiceLogprobs(ApiModel):
    """Log probabilities of a message's tokens."""

    content: list[TokenLogprob] | None
    refusal: list[TokenLogprob] | None


ChatFinishReason = Literal["stop", "length", "tool_calls", "function_call", "content_filter"]
"""`function_call` is the deprecated form of `tool_calls`, for requests with `functions`."""


class ChatAnswerMessage(ApiModel):
    """The assistant's message: text, tool calls or both. `tool_calls` is left out where there are none.

    `content` is null if the message has calls or reasoning only.
    """

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: str | None
    reasoning_content: OmitIfNone[str] = None
    """An extension: the reasoning before the answer; left out where there is none."""
    tool_calls: Annotated[list[ToolCall] | None, Field(exclude_if=lambda calls: calls is None)] = None
    function_call: OmitIfNone[FunctionCall] = None
    """Deprecated form of `tool_calls`, for requests with `functions`."""
    steps: OmitIfNone[list[AnswerStep]] = None
    """An extension: the steps before the answer, in order; left out where there are none."""


class ChatChoice(ApiModel):
    """One of the `n` choices of a chat completion."""

    index: int
    message: ChatAnswerMessage
    logprobs: ChoiceLogprobs | None
    finish_reason: ChatFinishReason
    token_ids: OmitIfNone[list[int]] = None


class ChatCompletion(Answer):
    """The response without streaming."""

    object: Literal["chat.completion"] = "chat.completion"
    choices: list[ChatChoice]
    usage: CompletionUsage
    prompt_logprobs: OmitIfNone[PromptLogprobs] = None
    prompt_token_ids: OmitIfNone[list[int]] = None


class FunctionCallDelta(ApiModel):
    """A chunk's part of a function call: its name in the first chunk, then more of its arguments."""

    name: str | None = None
    arguments: str


class ToolCallChunk(ApiModel):
    """A chunk's part of one tool call; `id`, `type` and the function's name are sent once."""

    index: int
    id: str | None = None
    type: Literal["function"] | None = None
    function: FunctionCallDelta


class ChatDelta(ApiModel):
    """A chunk's addition to a choice's message; keys without a value are left out."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    """An extension: more of the reasoning before the answer."""
    tool_calls: list[ToolCallChunk] | None = None
    function_call: FunctionCallDelta | None = None
    """Deprecated form of `tool_calls`, for requests with `functions`."""
    steps: list[AnswerStep] | None = None
    """An extension: one step, in a chunk of its own, when it starts and when it ends."""


class ChatChunkChoice(ApiModel):
    """A chunk's part of one choice."""

    index: int
    delta: ChatDelta
    logprobs: ChoiceLogprobs | None
    finish_reason: ChatFinishReason | None
    token_ids: OmitIfNone[list[int]] = None


class ChatCompletionChunk(Answer):
    """One event of the stream."""

    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    choices: list[ChatChunkChoice]
    usage: CompletionUsage | None = None
    prompt_token_ids: OmitIfNone[list[int]] = None
    """Token ids of the prompt, in the first chunk only."""
