"""Project documents in memory and in an empty database, which outlive the gateways of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from auth_billing.store.connection import StoreConnection
from stored_objects.project_documents.project_documents import StoredDocuments
from stored_objects.services import stored_documents
from stored_objects.settings import DocumentSettings
from stored_objects.store.indexes import create_indexes
from tests.fakes import project_documents as in_memory
from tests.fakes.byte_counts import storage_quotas


@pytest.fixture(params=["memory", pytest.param("store", marks=pytest.mark.store)])
async def documents(request: pytest.FixtureRequest) -> AsyncIterator[StoredDocuments]:
    if request.param == "memory":
        yield in_memory.stored_documents()
        return
    connection = StoreConnection(request.getfixturevalue("database_url"), operation_ms=20_000)
    await create_indexes(connection)
    yield stored_documents(DocumentSettings(), connection, storage_quotas())
    connection.close()
