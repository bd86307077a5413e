"""Request and response models of `/v1/conversations`.

Source: `CreateConversationBody`, `UpdateConversationBody`, `ConversationResource`, `ConversationItemList` of OpenAI's
specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel, RequestBody
from gateway.openai.pagination import Deleted, ItemList
from gateway.openai.query_parameters import QueryParameters
from gateway.openai.responses.items import InputItem, ItemReference
from gateway.openai.responses.queries import Include, InputItemQuery
from gateway.openai.responses.response import InputItemResource
from gateway.openai.sampling import Metadata

MAX_NEW_ITEMS = 20
"""Most items that one request may add to a conversation."""


def _check_items(items: Sequence[InputItem] | None) -> None:
    if any(isinstance(item, ItemReference) for item in items or ()):
        raise PydanticCustomError("unsupported_parameter", "references are not supported: send the items")


class ConversationCreate(RequestBody):
    """Body of `POST /v1/conversations`."""

    metadata: Metadata | None = None
    """Pairs that are attached to the conversation."""
    items: Annotated[list[InputItem], Field(max_length=MAX_NEW_ITEMS)] | None = None
    """The first items, at most 20, as those of a response's `input`; they get new ids."""

    @field_validator("items")
    @classmethod
    def _no_references(cls, items: list[InputItem] | None) -> list[InputItem] | None:
        _check_items(items)
        return items


class ConversationUpdate(RequestBody):
    """Body of `POST /v1/conversations/{conversation_id}`."""

    metadata: Metadata | None
    """The pairs that replace those of the conversation: at most 16; `null` for none."""


class ConversationItemsCreate(RequestBody):
    """Body of `POST /v1/conversations/{conversation_id}/items`."""

    items: Annotated[list[InputItem], Field(min_length=1, max_length=MAX_NEW_ITEMS)]
    """Items to append, at most 20, as those of a response's `input`; they get new ids."""

    @field_validator("items")
    @classmethod
    def _no_references(cls, items: list[InputItem]) -> list[InputItem]:
        _check_items(items)
        return items


class IncludeQuery(QueryParameters):
    """Query parameters of routes that return items of a conversation."""

    include: Include = Field(default_factory=list)
    """Without effect: items have all fields that they were stored with."""


class ConversationItemQuery(InputItemQuery):
    """Query parameters of `GET /v1/conversations/{conversation_id}/items`."""


class Conversation(ApiModel):
    """A conversation."""

    id: str
    object: Literal["conversation"] = "conversation"
    created_at: int
    metadata: dict[str, str]


class ConversationDeleted(Deleted):
    """Confirmation that a conversation was erased with its items."""

    object: Literal["conversation.deleted"] = "conversation.deleted"


class ConversationItem(InputItemResource):
    """An item of a conversation; its other fields follow from `type`."""


class ConversationItemList(ItemList[ConversationItem]):
    """A page of a conversation's items."""
