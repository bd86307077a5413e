"""The store connection: durability, errors and time limits."""

from __future__ import annotations

import asyncio

import pytest
from pymongo.errors import AutoReconnect, DocumentTooLarge, DuplicateKeyError

from auth_billing.errors import RecordRefused, StoreUnavailable
from auth_billing.store.api_keys import MongoApiKeyStore
from auth_billing.store.collection import Collection, translated_errors
from auth_billing.store.connection import StoreConnection
from auth_billing.store.idempotency import MongoIdempotencyStore
from auth_billing.store.organisations import MongoOrganisationStore
from auth_billing.store.usage import MongoUsageStore
from runtime.lifecycle import StartupError

pytestmark = pytest.mark.store


@pytest.mark.parametrize("store", [MongoApiKeyStore, MongoUsageStore, MongoOrganisationStore, MongoIdempotencyStore])
async def test_durable_stores_write_to_the_journal_of_a_majority(connection: StoreConnection, store: type) -> None:
    """A single node has no fail-over, so this checks the write concern (docs/design/reliability-contract.md#F16)."""
    collections = [each for each in vars(store(connection)).values() if isinstance(each, Collection)]
    assert [each.raw.write_concern.document for each in collections] == [{"w": "majority", "j": True}] * len(
        collections
    )
    assert collections


async def test_an_unjournaled_write_is_acknowledged_before_the_journal(connection: StoreConnection) -> None:
    assert connection.unjournaled("things").raw.write_concern.document == {"w": 1, "j": False}


async def test_the_server_answers_and_tells_its_time(connection: StoreConnection) -> None:
    await connection.ping()
    assert await connection.server_time() > 1_600_000_000


@pytest.mark.parametrize("url", ["", "http://127.0.0.1", "mongodb://", "mongodb://host:port"])
def test_a_url_that_is_not_mongodbs_is_a_startup_error(url: str) -> None:
    with pytest.raises(StartupError, match="HEADRACE_MONGODB_URL"):
        StoreConnection(url)


async def test_an_unavailable_store_fails_within_the_time_limit() -> None:
    connection = StoreConnection("mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=50", operation_ms=200)
    async with asyncio.timeout(5):
        for operation in (connection.ping, connection.server_time):
            with pytest.raises(StoreUnavailable):
                await operation()
    connection.close()


@pytest.mark.parametrize(
    ("raised", "translated"),
    [
        (AutoReconnect("gone"), StoreUnavailable),
        (OverflowError("int too large"), RecordRefused),
        (DocumentTooLarge("17 MiB"), RecordRefused),
        (DuplicateKeyError("_id"), DuplicateKeyError),
    ],
)
def test_driver_errors_are_translated_except_duplicate_keys(raised: Exception, translated: type[Exception]) -> None:
    with pytest.raises(translated), translated_errors():
        raise raised
