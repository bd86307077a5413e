"""Requests that search vector stores: what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.vector_store_search import VectorStoreSearch


def equal(value: Any, key: str = "lang", kind: str = "eq") -> dict[str, Any]:
    return {"type": kind, "key": key, "value": value}


def nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = equal("pl")
    for _ in range(depth - 1):
        inner = {"type": "and", "filters": [inner]}
    return inner


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"query": "x", "filters": equal(2**63)}, "filters.value"),
        ({"query": "x", "filters": equal([2**63], kind="in")}, "filters.value[0]"),
        ({"query": ""}, "query"),
        ({"query": []}, "query"),
        ({"query": "x", "max_num_results": 51}, "max_num_results"),
        ({"query": "x", "filters": equal(["pl"])}, "filters.value"),
        ({"query": "x", "filters": equal("pl", kind="in")}, "filters.value"),
        ({"query": "x", "filters": nested(9)}, "filters"),
        (
            {"query": "x", "filters": {"type": "or", "filters": [equal(list("ab" * 20), kind="in")] * 2}},
            "filters",
        ),
        ({"query": "x", "ranking_options": {"ranker": ""}}, "ranking_options.ranker"),
        (
            {"query": "x", "ranking_options": {"hybrid_search": {"embedding_weight": 0.0, "text_weight": 0.0}}},
            "ranking_options.hybrid_search.embedding_weight",
        ),
    ],
)
def test_refused_requests_name_the_field(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        VectorStoreSearch.parse(body)
    assert refused.value.param == param


def test_nested_filters_are_accepted() -> None:
    assert VectorStoreSearch.parse({"query": ["x", "y"], "filters": nested(8)}).queries == ["x", "y"]
