"""Response models of Anthropic's API: messages, the events of their stream, errors and lists of models.

Source: `Message`, `RawMessageStreamEvent`, `ErrorResponse` and `ModelInfo` of Anthropic's SDK.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from gateway.openai.base import ApiModel, OmitIfNone


class TextContent(ApiModel):
    """Text of the answer."""

    type: Literal["text"] = "text"
    text: str


class ThinkingContent(ApiModel):
    """Reasoning of the model. The signature is empty: nothing here checks it."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: str = ""


class ToolUseContent(ApiModel):
    """A tool call; its input is `{"INVALID_JSON": text}` where the model wrote no JSON object."""

    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: dict[str, Any]


AnswerBlock = Annotated[TextContent | ThinkingContent | ToolUseContent, Field(discriminator="type")]
StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"]


class MessageUsage(ApiModel):
    """Number of tokens of a request. Those of the prompt are `input_tokens` and `cache_read_input_tokens` together."""

    input_tokens: int
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int
    output_tokens: int


class AnthropicMessage(ApiModel):
    """The answer of `/v1/messages`."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[AnswerBlock]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: MessageUsage


class AnthropicEvent(ApiModel):
    """One event of a stream, whose name is its `type`; each type has its own of the other fields."""

    type: Literal[
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
    ]
    index: OmitIfNone[int] = None
    message: OmitIfNone[AnthropicMessage] = None
    content_block: OmitIfNone[AnswerBlock] = None
    delta: OmitIfNone[dict[str, Any]] = None
    usage: OmitIfNone[MessageUsage] = None
    error: OmitIfNone[AnthropicErrorDetail] = None


class AnthropicErrorDetail(ApiModel):
    """The `error` object of an error body."""

    type: str
    message: str


class AnthropicError(ApiModel):
    """Body of an error of Anthropic's routes, and data of the event `error` of their streams."""

    type: Literal["error"] = "error"
    error: AnthropicErrorDetail


class MessageTokens(ApiModel):
    """The answer of `/v1/messages/count_tokens`: the number of tokens of the prompt, with tools and images."""

    input_tokens: int


class AnthropicModel(ApiModel):
    """A served model, for clients that send `anthropic-version`."""

    type: Literal["model"] = "model"
    id: str
    display_name: str
    created_at: str
    lifecycle: Literal["active"] = "active"
    max_input_tokens: int


class AnthropicModelList(ApiModel):
    """All models that the caller may use, as one page."""

    data: list[AnthropicModel]
    has_more: Literal[False] = False
    first_id: str | None
    last_id: str | None
