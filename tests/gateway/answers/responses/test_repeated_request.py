"""The id of a background response follows from its request with an idempotency key, within the key's retention."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from auth_billing.idempotency import RETENTION_PERIOD, KeyedRequest
from gateway.answers.responses.repeated_request import repeated_response
from stored_objects.project_documents.project_documents import ProjectDocuments, Retention
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.responses.responses import StoredResponse, StoredResponses
from tests.fakes.byte_counts import document_quota
from tests.fakes.project_documents import DictDocumentStore

REQUEST = KeyedRequest("org-1", "proj-1", "/v1/responses", "key-1", "fingerprint")
OWNER = ProjectOwner("org-1", "proj-1")


@pytest.fixture
def responses() -> StoredResponses:
    return StoredResponses(ProjectDocuments(DictDocumentStore(), Retention(30), document_quota()))


async def begin(responses: StoredResponses, id: str, *, age: float) -> StoredResponse:
    response: dict[str, Any] = {"id": id, "status": "queued", "created_at": int(time.time() - age)}
    await responses.keep(OWNER, stored := StoredResponse(response, []))
    return stored


async def test_an_earlier_run_s_response_is_found(responses: StoredResponses) -> None:
    id, found = await repeated_response(REQUEST, responses, OWNER)
    assert found is None
    begun = await begin(responses, id, age=1.0)
    assert await repeated_response(REQUEST, responses, OWNER) == (id, begun)


@pytest.mark.parametrize("fields", [{"key": "key-2"}, {"fingerprint": "other"}, {"project": "proj-2"}])
async def test_other_requests_have_other_responses(responses: StoredResponses, fields: dict[str, str]) -> None:
    id, _ = await repeated_response(REQUEST, responses, OWNER)
    await begin(responses, id, age=1.0)
    other, found = await repeated_response(replace(REQUEST, **fields), responses, OWNER)
    assert (other != id, found) == (True, None)


async def test_a_key_that_is_used_again_after_its_retention_has_another_response(responses: StoredResponses) -> None:
    id, _ = await repeated_response(REQUEST, responses, OWNER)
    await begin(responses, id, age=RETENTION_PERIOD + 60)
    second, found = await repeated_response(REQUEST, responses, OWNER)
    assert (second != id, found) == (True, None)
    begun = await begin(responses, second, age=1.0)
    assert await repeated_response(REQUEST, responses, OWNER) == (second, begun)
