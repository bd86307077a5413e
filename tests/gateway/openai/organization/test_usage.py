"""Queries of usage and cost reports."""

from __future__ import annotations

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.organization.usage import CompletionsUsageQuery, CostsQuery, EmbeddingsUsageQuery, ExportQuery

START = ("start_time", "60")


def test_groups_and_filters_are_lists() -> None:
    query = CompletionsUsageQuery.parse_query([START, ("group_by", "model"), ("group_by", "batch"), ("models[]", "a")])
    assert (query.start_time, query.group_by, query.models, query.bucket_width) == (60, ["model", "batch"], ["a"], "1d")


def test_costs_have_daily_buckets() -> None:
    assert CostsQuery.parse_query([START]).limit == 7
    with pytest.raises(InvalidRequest):
        CostsQuery.parse_query([START, ("bucket_width", "1h")])


@pytest.mark.parametrize(
    ("kind", "items", "param"),
    [
        (CompletionsUsageQuery, [], "start_time"),
        (EmbeddingsUsageQuery, [START, ("group_by", "service_tier")], "group_by[0]"),
        (ExportQuery, [START], "format"),
        (ExportQuery, [START, ("format", "pdf")], "format"),
    ],
)
def test_invalid_queries_are_named(
    kind: type[CompletionsUsageQuery | EmbeddingsUsageQuery | ExportQuery], items: list[tuple[str, str]], param: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        kind.parse_query(items)
    assert caught.value.param == param
