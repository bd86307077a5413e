"""Parses query strings and cuts lists into pages, for all routes that list objects."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from fastapi import Request

from gateway.errors import InvalidRequest
from gateway.openai.base import ApiModel
from gateway.openai.pagination import ItemList, PageQuery
from gateway.openai.query_parameters import QueryParameters

Query = TypeVar("Query", bound=QueryParameters)
Item = TypeVar("Item", bound=ApiModel)
Page = TypeVar("Page", bound=ItemList[Any])


def query_of(kind: type[Query]) -> Callable[..., Coroutine[Any, Any, Query]]:
    """Create a FastAPI dependency that parses a request's query string strictly as `kind`."""

    async def read(request: Request) -> Query:
        return kind.parse_query(request.query_params.multi_items())

    return read


def page_of(kind: type[Page], items: Sequence[Any], query: PageQuery) -> Page:
    """Return one page of `items` (all, in order) as response model: at most `query.limit` after the id `query.after`.

    Raises:
        InvalidRequest: No item has the id `query.after`.
    """
    begin = 0
    if query.after is not None:
        ids = [item.id for item in items]
        if query.after not in ids:
            raise unknown_after()
        begin = ids.index(query.after) + 1
    end = begin + query.limit
    return listed(kind, items[begin:end], has_more=end < len(items))


def unknown_after() -> InvalidRequest:
    """Create the error of a list request whose `after` is the id of no item of the list."""
    return InvalidRequest("Invalid 'after': there is no such item in this list.", param="after")


def listed(kind: type[Page], items: Sequence[Any], *, has_more: bool) -> Page:
    """Return a response model (page class `kind`) that consists of `items`; `has_more`: whether more items follow."""
    return kind(
        data=list(items),
        first_id=items[0].id if items else None,
        last_id=items[-1].id if items else None,
        has_more=has_more,
    )
