"""Query parameters of paginated lists."""

from __future__ import annotations

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.pagination import OrderedPageQuery, PageQuery


def test_defaults() -> None:
    query = OrderedPageQuery.parse_query([])
    assert (query.limit, query.after, query.order) == (20, None, "asc")


@pytest.mark.parametrize("item", [("limit", "0"), ("limit", "101"), ("after", ""), ("order", "asc")])
def test_invalid_parameters_are_refused(item: tuple[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        PageQuery.parse_query([item])
