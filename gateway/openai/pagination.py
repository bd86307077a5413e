"""Models of paginated lists and of their query parameters, shared by all routes that list objects."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field

from gateway.openai.base import ApiModel
from gateway.openai.query_parameters import QueryInt, QueryParameters, QueryText

T = TypeVar("T", bound=ApiModel)

Limit = Annotated[QueryInt, Field(ge=1, le=100)]


class ItemList(ApiModel, Generic[T]):
    """A page of a list; `last_id` is the `after` of the next page."""

    object: Literal["list"] = "list"
    data: list[T]
    first_id: str | None
    last_id: str | None
    has_more: bool


class PageQuery(QueryParameters):
    """Query parameters of a paginated list."""

    limit: Limit = 20
    """Maximum number of items per page."""
    after: QueryText | None = None
    """Id of the last item of the previous page."""


class OrderedPageQuery(PageQuery):
    """Query parameters of a paginated list with a choice of order."""

    order: Literal["asc", "desc"] = "asc"
    """Order by time of creation."""


class Deleted(ApiModel):
    """Base of confirmations that an object was deleted."""

    id: str
    deleted: Literal[True] = True
