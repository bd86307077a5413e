"""The store connection: durability, errors and time limits."""

from __future__ import annotations

import pytest

from auth_billing.store.accounts import MongoAccountStore
from auth_billing.store.api_keys import MongoApiKeyStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.idempotency import MongoIdempotencyStore
from auth_billing.store.usage import MongoUsageStore

pytestmark = pytest.mark.store


@pytest.mark.parametrize("store", [MongoApiKeyStore, MongoUsageStore, MongoAccountStore, MongoIdempotencyStore])
async def test_durable_stores_write_to_the_journal_of_a_majority(connection: StoreConnection, store: type) -> None:
    """A single node has no fail-over, so this checks the write concern (docs/design/reliability-contract.md#F16)."""
    collections = vars(store(connection)).values()
    assert [each.write_concern.document for each in collections] == [{"w": "majority", "j": True}] * len(collections)
    assert collections
