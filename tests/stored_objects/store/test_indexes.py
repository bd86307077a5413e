"""Indexes of stored objects: created, and again without effect."""

from __future__ import annotations

import pytest

from auth_billing.store.connection import StoreConnection
from stored_objects.store.indexes import create_indexes
from stored_objects.store.objects import COLLECTION

pytestmark = pytest.mark.store


async def test_indexes_serve_the_sweeper_and_the_sums(connection: StoreConnection) -> None:
    await create_indexes(connection)
    indexes = await connection.durable(COLLECTION).index_information()
    keys = [[name for name, _ in each["key"]] for each in indexes.values()]
    assert ["kept", "expires"] in keys
    assert ["organisation", "requester"] in keys
    assert ["organisation", "requester", "kind", "created", "_id"] in keys
    assert ["part_of"] in keys
