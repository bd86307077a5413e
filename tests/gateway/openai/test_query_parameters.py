"""Query strings are parsed as strictly as bodies."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Field

from gateway.errors import InvalidRequest
from gateway.openai.query_parameters import (
    MAX_PARAMETERS,
    QueryBool,
    QueryInt,
    QueryParameters,
    QueryText,
    document_parameters,
)


class Range(QueryParameters):
    gte: QueryInt | None = None


class Query(QueryParameters):
    limit: Annotated[QueryInt, Field(ge=1)] = 20
    """Maximum number of items."""
    all: QueryBool = False
    ids: Annotated[list[QueryText], Field(default_factory=list)]
    at: Range = Range()


def parse(*items: tuple[str, str]) -> Query:
    return Query.parse_query(items)


def test_every_kind_of_parameter() -> None:
    query = parse(("limit", "5"), ("all", "true"), ("ids", "a"), ("ids[]", "b"), ("at[gte]", "-3"))
    assert (query.limit, query.all, query.ids, query.at.gte) == (5, True, ["a", "b"], -3)
    assert parse() == Query(ids=[])


@pytest.mark.parametrize(
    ("items", "param"),
    [
        ([("unknown", "1")], "unknown"),
        ([("limit", "1"), ("limit", "2")], "limit"),
        ([("limit", "1.0")], "limit"),
        ([("limit", "\u0663")], "limit"),
        ([("all", "yes")], "all"),
        ([("at", "1")], "at"),
        ([("at[lt]", "1")], "at.lt"),
        ([("limit[$gt]", "1")], "limit[$gt]"),
        ([("ids", "x")] * (MAX_PARAMETERS + 1), None),
    ],
)
def test_invalid_parameters_are_refused(items: list[tuple[str, str]], param: str | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(*items)
    assert caught.value.param == param


def test_parameters_are_documented() -> None:
    documented = {each["name"]: each for each in document_parameters(Query)}
    assert documented["limit"]["description"] == "Maximum number of items."
    assert documented["at"]["style"] == "deepObject"
    assert not documented["ids"]["required"]
