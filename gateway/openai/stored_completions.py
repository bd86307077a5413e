"""Models of the routes of stored chat completions: list, metadata, deletion and messages.

Source: `ChatCompletionList`, `ChatCompletionDeleted` and `ChatCompletionMessageList` of OpenAI's specification.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gateway.errors import InvalidRequest
from gateway.openai.base import ApiModel, OmitIfNone, RequestBody
from gateway.openai.chat_completion_answers import ChatCompletion
from gateway.openai.messages import ContentPart, FunctionCall, ToolCall, UserPart
from gateway.openai.pagination import Deleted, ItemList, OrderedPageQuery
from gateway.openai.query_parameters import QueryText
from gateway.openai.sampling import Metadata

_METADATA = "metadata["


class StoredChatCompletion(ChatCompletion):
    """A stored chat completion: the answer as it was without streaming, and its metadata."""

    metadata: dict[str, str]


class StoredChatCompletionList(ItemList[StoredChatCompletion]):
    """A page of stored chat completions."""


class StoredChatCompletionQuery(OrderedPageQuery):
    """Query parameters of the list of stored chat completions."""

    model: QueryText | None = None
    """Name of the model that answered, as responses carry it."""
    metadata: Metadata = Field(default_factory=dict)
    """Pairs that the completions must have: `metadata[key]=value`."""

    @classmethod
    def _add(cls, given: dict[str, Any], name: str, value: str) -> None:
        if not name.startswith(_METADATA) or not name.endswith("]"):
            super()._add(given, name, value)
            return
        pairs, key = given.setdefault("metadata", {}), name[len(_METADATA) : -1]
        if not isinstance(pairs, dict) or key in pairs:
            raise InvalidRequest("Invalid 'metadata': given more than once.", param="metadata")
        pairs[key] = value


class StoredChatCompletionUpdate(RequestBody):
    """Body of `POST /v1/chat/completions/{completion_id}`."""

    metadata: Metadata | None
    """The pairs that replace those of the completion: at most 16; `null` for none."""


class StoredChatCompletionDeleted(Deleted):
    """Confirmation that a stored chat completion was erased."""

    object: Literal["chat.completion.deleted"] = "chat.completion.deleted"


class StoredMessage(ApiModel):
    """A message of the request of a stored chat completion."""

    id: str
    role: str
    content: str | None
    """Text; `null` where the message has parts."""
    content_parts: list[UserPart | ContentPart] | None
    """Parts of the content; `null` where it is one text."""
    refusal: str | None = None
    name: OmitIfNone[str] = None
    tool_calls: OmitIfNone[list[ToolCall]] = None
    function_call: OmitIfNone[FunctionCall] = None
    tool_call_id: OmitIfNone[str] = None


class StoredMessageList(ItemList[StoredMessage]):
    """A page of the messages of a stored chat completion, in order of the conversation unless requested otherwise."""
