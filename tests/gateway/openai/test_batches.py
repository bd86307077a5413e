"""Request bodies of batches: endpoints with their scopes, the window, metadata and expiry."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from auth_billing.access.scopes import PROJECT_SCOPES
from gateway.errors import InvalidRequest
from gateway.openai.batches import SCOPES, BatchCreate
from stored_objects.project_documents.batches import Endpoint

GOOD: dict[str, Any] = {"input_file_id": "file-1", "endpoint": "/v1/completions", "completion_window": "24h"}


def test_every_endpoint_needs_a_scope_of_a_project() -> None:
    assert set(SCOPES) == set(get_args(Endpoint))
    assert set(SCOPES.values()) <= PROJECT_SCOPES


def test_the_fields_of_a_batch() -> None:
    expiry = {"anchor": "created_at", "seconds": 3600}
    body = BatchCreate.parse({**GOOD, "metadata": {"a": "b"}, "output_expires_after": expiry})
    assert body.metadata == {"a": "b"}
    assert body.output_expires_after is not None
    assert body.output_expires_after.seconds == 3600


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("input_file_id", ""),
        ("endpoint", "/v1/moderations"),
        ("endpoint", "/v1/batches"),
        ("completion_window", "48h"),
        ("output_expires_after", "soon"),
        ("metadata", ["a"]),
    ],
)
def test_other_values_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        BatchCreate.parse({**GOOD, field: value})
    assert refused.value.param == field
