"""Requests of `/v1/vector_stores`: what is refused, and what follows from left-out fields."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.base import RequestBody
from gateway.openai.vector_stores import (
    FileBatchCreate,
    VectorStoreCreate,
    VectorStoreFileCreate,
    VectorStoreFileQuery,
    VectorStoreFileUpdate,
)


@pytest.mark.parametrize(
    ("kind", "body", "param"),
    [
        (VectorStoreCreate, {"expires_after": {"anchor": "last_active_at", "days": 366}}, "expires_after.days"),
        (VectorStoreCreate, {"file_ids": ["file-1"] * 501}, "file_ids"),
        (VectorStoreFileCreate, {}, "file_id"),
        (VectorStoreFileCreate, {"file_id": "f", "attributes": {"a": [1]}}, "attributes.a"),
        (VectorStoreFileCreate, {"file_id": "f", "attributes": {"a": 2**63}}, "attributes.a"),
        (VectorStoreFileUpdate, {"attributes": {"a": -(2**63) - 1}}, "attributes.a"),
        (VectorStoreFileCreate, {"file_id": "f", "attributes": {str(n): n for n in range(17)}}, "attributes"),
        (VectorStoreFileCreate, {"file_id": "f", "chunking_strategy": {"type": "static"}}, "chunking_strategy.static"),
        (
            VectorStoreFileCreate,
            {
                "file_id": "f",
                "chunking_strategy": {
                    "type": "static",
                    "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 51},
                },
            },
            "chunking_strategy.static.chunk_overlap_tokens",
        ),
        (FileBatchCreate, {}, "file_ids"),
        (FileBatchCreate, {"file_ids": ["f"], "files": [{"file_id": "f"}]}, "files"),
    ],
)
def test_refused_requests_name_the_field(kind: type[RequestBody], body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        kind.parse(body)
    assert refused.value.param == param


def test_attributes_keep_their_types() -> None:
    given = {"a": True, "b": 1, "c": 1.5, "d": "1", "e": 2**63 - 1, "f": -(2**63)}
    parsed = VectorStoreFileCreate.parse({"file_id": "f", "attributes": given})
    assert parsed.attributes is not None
    assert [(name, type(value)) for name, value in parsed.attributes.items()] == [
        ("a", bool),
        ("b", int),
        ("c", float),
        ("d", str),
        ("e", int),
        ("f", int),
    ]


def test_a_batch_gives_its_fields_to_all_its_file_ids() -> None:
    batch = FileBatchCreate.parse({"file_ids": ["f", "g"], "attributes": {"year": 2026}})
    assert [(each.file_id, each.attributes) for each in batch.all_files] == [
        ("f", {"year": 2026}),
        ("g", {"year": 2026}),
    ]


def test_a_page_has_one_side() -> None:
    with pytest.raises(InvalidRequest):
        VectorStoreFileQuery.parse_query([("after", "a"), ("before", "b")])
