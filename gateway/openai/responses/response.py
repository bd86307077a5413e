"""Response models of the Responses API: the response, its output items, usage and the events of its stream.

Responses and events are written without pydantic (`gateway/answers/responses/`); tests validate them against these
models. Source: `Response`, `OutputItem`, `ResponseUsage`, `ResponseStreamEvent` of OpenAI's specification.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from pydantic import ConfigDict, Field

from gateway.openai.base import ApiModel, OmitIfNone
from gateway.openai.pagination import Deleted, ItemList
from gateway.openai.responses.request import ConversationReference
from gateway.openai.steps import AnswerStep
from gateway.openai.usage import PartUsage

ResponseStatus = Literal["completed", "failed", "in_progress", "cancelled", "queued", "incomplete"]
OPEN_STATUSES: Collection[ResponseStatus] = ("queued", "in_progress")
"""Statuses of a response that is being generated."""


class InputTokensDetails(ApiModel):
    """Breakdown of the input's tokens; `cached_tokens` were found in the prefix cache."""

    cached_tokens: int
    cache_write_tokens: int = 0


class OutputTokensDetails(ApiModel):
    """Breakdown of the generated tokens."""

    reasoning_tokens: int


class ResponseUsage(ApiModel):
    """Number of tokens of one response, without those of its steps."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int
    parts: OmitIfNone[list[PartUsage]] = None
    """An extension: what the steps before the answer used, by model; left out without steps."""


class ResponseError(ApiModel):
    """Why a response failed."""

    code: str
    message: str


class IncompleteDetails(ApiModel):
    """Why a response is incomplete."""

    reason: Literal["max_output_tokens", "content_filter"]


class OutputItem(ApiModel):
    """An item of a response's output; its other fields follow from `type`."""

    model_config = ConfigDict(extra="allow")

    type: Literal[
        "message", "function_call", "custom_tool_call", "file_search_call", "image_generation_call", "reasoning"
    ]
    id: str
    status: Literal["in_progress", "completed", "incomplete", "failed"]


class PassageBudget(ApiModel):
    """Passages of files in the prompt of a response."""

    found: int
    """Number of passages that were found."""
    quoted: int
    """Number of passages that the prompt had room for, the best ones."""
    tokens: int
    """Estimated tokens of the quoted passages."""
    max_tokens: int
    """Tokens that the prompt had room for."""


class ModelResponse(ApiModel):
    """A response of a model."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: ResponseStatus
    background: bool
    error: ResponseError | None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    metadata: dict[str, str]
    model: str
    output: list[OutputItem]
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: str | None
    reasoning: dict[str, Any]
    safety_identifier: str | None
    service_tier: str
    store: bool
    temperature: float
    text: dict[str, Any]
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: float
    truncation: Literal["auto", "disabled"]
    usage: OmitIfNone[ResponseUsage] = None
    """Left out before the response's end."""
    user: OmitIfNone[str] = None
    conversation: OmitIfNone[ConversationReference] = None
    """The conversation that input and output were appended to; left out where there is none."""
    steps: OmitIfNone[list[AnswerStep]] = None
    """An extension: the steps before the answer, in order; left out where there are none."""
    passages: OmitIfNone[PassageBudget] = None
    """An extension: how many passages the prompt quotes; left out where no files were searched."""


class InputTokens(ApiModel):
    """Number of tokens of a response's prompt."""

    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: int


class InputItemResource(ApiModel):
    """An input item of a stored response; its other fields follow from `type`."""

    model_config = ConfigDict(extra="allow")

    type: str
    id: str


class InputItemList(ItemList[InputItemResource]):
    """A page of a response's input items."""


class DeletedResponse(Deleted):
    """Confirms that a response was deleted."""

    object: Literal["response"] = "response"


class ResponseStreamEvent(ApiModel):
    """An event of a response's stream; its other fields follow from `type`."""

    model_config = ConfigDict(extra="allow")

    type: str
    sequence_number: int = Field(ge=0)
