"""The stores over MongoDB's wire protocol, on the embedded store; killed and started again too."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import msgspec
import pytest

from auth_billing.access.scopes import PROJECT_SCOPES, Scope
from auth_billing.authenticator import Authenticator
from auth_billing.development_account import ensure_development_account
from auth_billing.errors import RecordRefused, StoreUnavailable
from auth_billing.idempotency import IdempotencyRecord, KeptAnswer
from auth_billing.keys.key_records import ApiKeyRecord
from auth_billing.money.usage_store import Insertion
from auth_billing.people.organisation_records import Organisation
from auth_billing.store.accounts import MongoAccountStore
from auth_billing.store.api_keys import MongoApiKeyStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.idempotency import MongoIdempotencyStore
from auth_billing.store.indexes import create_indexes
from auth_billing.store.jobs import MongoJobStore
from auth_billing.store.usage import MongoUsageStore
from infra.accounts.embedded_store import EmbeddedStore
from router.messages import Usage
from tests.auth_billing.money.test_settlement import record
from tests.auth_billing.money.test_usage_reports import job

pytestmark = pytest.mark.store

KEY = ApiKeyRecord("k0", b"\0digest\xff", "abcd", "org", "project", "name", created=1.5, expires=9.5)


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[StoreConnection]:
    connection = StoreConnection(database_url, operation_ms=20_000)
    await create_indexes(connection)
    await create_indexes(connection)  # a second start changes nothing
    yield connection
    connection.close()


async def test_a_key_comes_back_as_it_was_stored(connection: StoreConnection) -> None:
    keys = MongoApiKeyStore(connection)
    await keys.add(KEY)
    assert await keys.find("k0") == KEY
    assert await keys.find("k1") is None


async def test_rights_of_a_key_come_back(connection: StoreConnection) -> None:
    keys = MongoApiKeyStore(connection)
    scopes = frozenset({Scope.EMBEDDINGS, Scope.MODELS_READ})
    key = replace(KEY, scopes=scopes, models=frozenset({"b", "a"}), user="user-1", last_used=3.5)
    await keys.add(key)
    assert await keys.find("k0") == key


async def test_a_key_without_the_newer_fields_may_do_all_that_a_key_of_its_project_may(
    connection: StoreConnection,
) -> None:
    old = {"digest": b"d", "last4": "abcd", "organisation": "org", "project": "p", "name": "n", "created": 1.5}
    await connection.durable("api_keys").insert_one({"_id": "k9", **old})
    key = await MongoApiKeyStore(connection).find("k9")
    assert key is not None
    assert (key.rights, key.models, key.user) == (PROJECT_SCOPES, None, "")


async def test_an_organisation_is_made_once(connection: StoreConnection) -> None:
    accounts = MongoAccountStore(connection)
    await asyncio.gather(*(accounts.ensure_organisation(Organisation("o", f"name {i}", 1.0)) for i in range(8)))
    assert await connection.durable("organisations").count_documents({}) == 1


async def test_a_usage_record_is_new_then_repeated_then_conflicting(connection: StoreConnection) -> None:
    usage = MongoUsageStore(connection)
    assert await usage.add(record()) is Insertion.NEW
    assert await usage.add(record(at=99.0)) is Insertion.REPEATED
    assert await usage.add(record(tokens=4)) is Insertion.CONFLICTING
    assert [each["usage"]["completion_tokens"] async for each in connection.durable("usage").find()] == [3]


async def test_of_many_records_the_new_ones_are_stored_and_the_others_named(connection: StoreConnection) -> None:
    usage = MongoUsageStore(connection)
    await usage.add(record(0))
    together = [record(1), record(0), record(2), record(2, tokens=4)]
    assert await usage.add_new(together) == [True, False, True, False]
    assert await usage.add(record(2, tokens=4)) is Insertion.CONFLICTING
    assert [await usage.add(record(number)) for number in range(3)] == [Insertion.REPEATED] * 3


async def test_many_records_of_which_one_can_not_be_stored(connection: StoreConnection) -> None:
    with pytest.raises(RecordRefused):
        await MongoUsageStore(connection).add_new([record(0), record(1, usage=Usage(prompt_tokens=2**63))])


async def test_a_number_past_64_bits_is_refused_by_name(connection: StoreConnection) -> None:
    with pytest.raises(RecordRefused):
        await MongoUsageStore(connection).add(record(usage=Usage(prompt_tokens=2**63)))


async def test_the_development_key_works_and_is_kept(connection: StoreConnection) -> None:
    accounts, keys, pepper = MongoAccountStore(connection), MongoApiKeyStore(connection), b"p" * 32
    first = await ensure_development_account(accounts, keys, pepper)
    assert await ensure_development_account(accounts, keys, pepper, first) == first
    assert (await Authenticator(keys, pepper).authenticate(first)).tenant == "development"


IDEMPOTENT = IdempotencyRecord("r0", "fingerprint", "attempt-0", lease=1030.5, expires=87400.25)
ANSWER = KeptAnswer(200, {"content-type": "text/event-stream"}, b"data: {}\n\n" * 300_000)


async def test_of_many_that_insert_an_idempotency_key_one_does(connection: StoreConnection) -> None:
    store = MongoIdempotencyStore(connection)
    records = [replace(IDEMPOTENT, attempt=f"attempt-{number}") for number in range(20)]
    there = await asyncio.gather(*map(store.insert, records))
    assert there.count(None) == 1
    winner = records[there.index(None)]
    assert [each for each in there if each is not None] == [winner] * 19


async def test_an_idempotency_key_belongs_to_its_attempt(connection: StoreConnection) -> None:
    store = MongoIdempotencyStore(connection)
    await store.insert(IDEMPOTENT)
    assert not await store.renew("r0", "attempt-1", 2000.0)
    assert await store.renew("r0", "attempt-0", 2000.0)
    successor = replace(IDEMPOTENT, attempt="attempt-1", lease=3000.0)
    assert not await store.replace(IDEMPOTENT, successor)  # it was renewed meanwhile
    assert await store.replace(replace(IDEMPOTENT, lease=2000.0), successor)
    assert not await store.finish("r0", "attempt-0", ANSWER)
    await store.release("r0", "attempt-0")
    assert await store.finish("r0", "attempt-1", ANSWER)
    await store.release("r0", "attempt-1")  # what is answered stays
    assert await store.insert(IDEMPOTENT) == replace(successor, lease=0.0, answer=ANSWER)


async def test_an_attempt_that_came_to_nothing_is_forgotten(connection: StoreConnection) -> None:
    store = MongoIdempotencyStore(connection)
    await store.insert(IDEMPOTENT)
    await store.release("r0", "attempt-0")
    assert await store.insert(replace(IDEMPOTENT, attempt="attempt-1")) is None


async def test_an_answer_that_no_document_can_hold_is_refused(connection: StoreConnection) -> None:
    store = MongoIdempotencyStore(connection)
    await store.insert(IDEMPOTENT)
    with pytest.raises(RecordRefused):
        await store.finish("r0", "attempt-0", KeptAnswer(200, {}, os.urandom(17 * 2**20)))


async def test_idempotency_keys_that_have_expired_are_forgotten_by_the_store(connection: StoreConnection) -> None:
    indexes = await connection.durable("idempotency").index_information()
    assert [index["expireAfterSeconds"] for index in indexes.values() if "expireAfterSeconds" in index] == [0]


@pytest.mark.parametrize("store", [MongoApiKeyStore, MongoUsageStore, MongoAccountStore, MongoIdempotencyStore])
async def test_what_must_not_be_forgotten_is_written_to_the_journal_of_a_majority(
    connection: StoreConnection, store: type
) -> None:
    """docs/design/reliability-contract.md#F16; one node can't show a fail-over, so the write concern itself is looked
    at."""
    collections = vars(store(connection)).values()
    assert [each.write_concern.document for each in collections] == [{"w": "majority", "j": True}] * len(collections)
    assert collections


async def test_kill_9_loses_no_acknowledged_record(own_store: Callable[[], EmbeddedStore]) -> None:
    store = own_store()
    connection = StoreConnection(store.url, operation_ms=20_000)
    usage, acknowledged = MongoUsageStore(connection), []

    async def write(number: int) -> None:
        try:
            await usage.add(record(number))
        except StoreUnavailable:
            return
        acknowledged.append(number)
        if len(acknowledged) == 40:
            store.kill()

    async with asyncio.TaskGroup() as group:
        limit = asyncio.Semaphore(8)

        async def bounded(number: int) -> None:
            async with limit:
                await write(number)

        for number in range(60):
            group.create_task(bounded(number))
    assert len(acknowledged) >= 40
    await asyncio.to_thread(store.start)
    found = {each["job"] async for each in connection.durable("usage").find()}
    assert {f"chatcmpl-{number}" for number in acknowledged} <= found
    assert await usage.add(msgspec.structs.replace(record(acknowledged[0]))) is Insertion.REPEATED
    connection.close()


async def test_kill_9_loses_no_job_that_was_accepted(own_store: Callable[[], EmbeddedStore]) -> None:
    """Its receipt would find nothing to settle."""
    store = own_store()
    connection = StoreConnection(store.url, operation_ms=20_000)
    jobs = MongoJobStore(connection)
    accepted = [job(number, at=1.0, usage=Usage(prompt_tokens=1)) for number in range(10)]
    await jobs.insert(accepted[:-1])
    await jobs.insert(accepted[-1:])
    store.kill()
    await asyncio.to_thread(store.start)
    assert set(await jobs.find([each.id for each in accepted])) == {each.id for each in accepted}
    connection.close()
