"""Lists that are read a page at a time, and what pages are asked for by."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field

from gateway.openai.base import ApiModel
from gateway.openai.query import QueryInt, QueryParameters, QueryText

T = TypeVar("T", bound=ApiModel)

Limit = Annotated[QueryInt, Field(ge=1, le=100)]


class ItemList(ApiModel, Generic[T]):
    """A page; `last_id` is the `after` of the next one."""

    object: Literal["list"] = "list"
    data: list[T]
    first_id: str | None
    last_id: str | None
    has_more: bool


class PageQuery(QueryParameters):
    """Which page."""

    limit: Limit = 20
    """How many items a page has at most."""
    after: QueryText | None = None
    """The id of the last item of the page before."""


class OrderedPageQuery(PageQuery):
    """Which page, in which order."""

    order: Literal["asc", "desc"] = "asc"
    """By time of creation."""


class Deleted(ApiModel):
    """What is said of something that is gone."""

    id: str
    deleted: Literal[True] = True
