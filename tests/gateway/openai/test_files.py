"""Request bodies and forms of files and uploads: purposes, expiry, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.files import FileCreate, FileQuery, UploadComplete, UploadCreate

UPLOAD: dict[str, Any] = {"filename": "a.jsonl", "purpose": "batch", "bytes": 10, "mime_type": "text/html"}


@pytest.mark.parametrize("purpose", ["assistants", "batch", "evals", "user_data", "vision"])
def test_purposes_that_are_stored(purpose: str) -> None:
    assert FileCreate.parse_form({"purpose": purpose, "extra": "x"}).purpose == purpose


@pytest.mark.parametrize("purpose", ["fine-tune", "batch_output", "", "Batch", "other"])
def test_other_purposes_are_refused(purpose: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        FileCreate.parse_form({"purpose": purpose})
    assert refused.value.param == "purpose"


def test_the_expiry_of_a_form() -> None:
    expiring = {"purpose": "batch", "expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    assert FileCreate.parse_form(expiring).lifetime == 3600.0
    assert FileCreate.parse_form({"purpose": "batch"}).lifetime is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"expires_after[anchor]": "created_at"}, "expires_after.seconds"),
        ({"expires_after[anchor]": "now", "expires_after[seconds]": "3600"}, "expires_after.anchor"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "3599"}, "expires_after.seconds"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "2592001"}, "expires_after.seconds"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "1e9"}, "expires_after.seconds"),
        ({"expires_after": "soon"}, "expires_after"),
        ({"expires_after": "soon", "expires_after[seconds]": "3600"}, "expires_after"),
        ({"expires_after[seconds]": "3600", "expires_after": "soon"}, "expires_after"),
    ],
)
def test_an_invalid_expiry_is_named(fields: dict[str, str], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        FileCreate.parse_form({"purpose": "batch", **fields})
    assert refused.value.param == param


def test_a_missing_purpose_is_named() -> None:
    with pytest.raises(InvalidRequest) as refused:
        FileCreate.parse_form({})
    assert (refused.value.param, refused.value.code) == ("purpose", "missing_required_parameter")


@pytest.mark.parametrize(
    ("field", "value"),
    [("bytes", 0), ("bytes", 1.0), ("bytes", "10"), ("filename", ""), ("purpose", "fine-tune"), ("mime_type", None)],
)
def test_invalid_uploads_are_refused(field: str, value: Any) -> None:
    assert UploadCreate.parse(UPLOAD).bytes == 10
    with pytest.raises(InvalidRequest) as refused:
        UploadCreate.parse({**UPLOAD, field: value})
    assert refused.value.param == field


def test_the_parts_of_a_completion() -> None:
    assert UploadComplete.parse({"part_ids": ["part_a", "part_b"]}).md5 is None
    for wrong in ({}, {"part_ids": "part_a"}, {"part_ids": ["x" * 65]}, {"part_ids": ["x"] * 1025}):
        with pytest.raises(InvalidRequest):
            UploadComplete.parse(wrong)


def test_pages_of_files() -> None:
    query = FileQuery.parse_query([])
    assert (query.limit, query.order, query.after, query.purpose) == (10_000, "desc", None, None)
    for wrong in (("limit", "0"), ("limit", "10001"), ("order", "up"), ("after", ""), ("other", "x")):
        with pytest.raises(InvalidRequest):
            FileQuery.parse_query([wrong])
