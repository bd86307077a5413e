"""Usage and parts in documents: read as stored, and those of earlier versions are read too."""

from __future__ import annotations

from auth_billing.store.usage_documents import (
    parts_from_documents,
    parts_to_documents,
    reported_from_document,
    reported_to_document,
    usage_from_document,
    usage_to_document,
)
from router.messages import ReportedUsage, Usage, UsagePart

TOKENS = Usage(prompt_tokens=5, completion_tokens=3, cached_tokens=4)
DRAWN = Usage(prompt_tokens=0, units={"512x512": 2})


def test_a_usage_is_read_as_stored_and_has_units_only_if_there_are_any() -> None:
    document = usage_to_document(TOKENS)
    assert document == {"prompt_tokens": 5, "completion_tokens": 3, "cached_tokens": 4}
    assert usage_from_document({**document, "outcome": "finished"}) == TOKENS
    assert usage_from_document(usage_to_document(DRAWN)) == DRAWN


def test_parts_are_read_as_stored() -> None:
    parts = (UsagePart(model="router-1.5", usage=TOKENS), UsagePart(model="painter", usage=DRAWN))
    assert parts_from_documents(parts_to_documents(parts)) == parts
    assert parts_to_documents(parts)[1]["units"] == {"512x512": 2}


def test_what_a_worker_reported_is_read_as_stored() -> None:
    parts = (UsagePart(model="painter", usage=DRAWN),)
    for reported in (
        ReportedUsage(attempt="a1", usage=TOKENS),
        ReportedUsage(attempt="a1", usage=TOKENS, parts=parts),
    ):
        assert reported_from_document(reported_to_document(reported)) == reported
    assert reported_from_document(None) is None
