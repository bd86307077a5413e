"""Idempotency keys in MongoDB: one run owns a key, and only that run changes it."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest

from auth_billing.errors import RecordRefused
from auth_billing.idempotency import IdempotencyRecord, KeptAnswer
from auth_billing.money.billing_records import SettlementSource, UsageStatement
from auth_billing.store.connection import StoreConnection
from auth_billing.store.idempotency import MongoIdempotencyStore
from router.messages import ReportedUsage
from tests.contract.examples import CALL, RECEIPT, ROUTING, msgspec_replace

pytestmark = pytest.mark.store


IDEMPOTENT = IdempotencyRecord("r0", "fingerprint", "run-0", lease=1030.5, expires=87400.25, gateway="process-1")


ANSWER = KeptAnswer(200, {"content-type": "text/event-stream"}, b"data: {}\n\n" * 300_000)


async def test_one_of_many_concurrent_insertions_wins(connection: StoreConnection) -> None:
    store = MongoIdempotencyStore(connection)
    records = [replace(IDEMPOTENT, run_id=f"run-{number}") for number in range(20)]
    there = await asyncio.gather(*map(store.insert, records))
    assert there.count(None) == 1
    winner = records[there.index(None)]
    assert [each for each in there if each is not None] == [winner] * 19


async def test_an_idempotency_key_belongs_to_its_attempt(connection: StoreConnection) -> None:
    store = MongoIdempotencyStore(connection)
    await store.insert(IDEMPOTENT)
    assert not await store.renew("r0", "run-1", 2000.0)
    assert await store.renew("r0", "run-0", 2000.0)
    successor = replace(IDEMPOTENT, run_id="run-1", lease=3000.0)
    assert not await store.replace(IDEMPOTENT, successor)  # the lease was renewed meanwhile
    assert await store.replace(replace(IDEMPOTENT, lease=2000.0), successor)
    assert not await store.finish("r0", "run-0", ANSWER)
    assert not await store.release("r0", "run-0")
    assert await store.finish("r0", "run-1", ANSWER)
    assert not await store.release("r0", "run-1")  # no effect once it has a response
    assert await store.insert(IDEMPOTENT) == replace(successor, lease=0.0, answer=ANSWER)


async def test_a_released_attempt_frees_its_key(connection: StoreConnection) -> None:
    store = MongoIdempotencyStore(connection)
    await store.insert(IDEMPOTENT)
    assert await store.find("r0") == IDEMPOTENT
    assert await store.release("r0", "run-0")
    assert await store.find("r0") is None
    assert await store.insert(replace(IDEMPOTENT, run_id="run-1")) is None


async def test_receipts_are_stored_with_the_answer_of_the_run_that_holds_the_record(
    connection: StoreConnection,
) -> None:
    store = MongoIdempotencyStore(connection)
    await store.insert(IDEMPOTENT)
    assert await store.statements(["r0", "r1"]) == {}
    other = replace(ANSWER, receipts=[msgspec_replace(RECEIPT, job="job-of-another-run")])
    assert not await store.finish("r0", "run-1", other)
    assert await store.finish("r0", "run-0", replace(ANSWER, receipts=[RECEIPT]))
    statement = UsageStatement(RECEIPT.usage, RECEIPT.outcome, SettlementSource.SWEPT)
    assert await store.statements(["r0", "r1"]) == {RECEIPT.job: statement}
    await store.drop_answers(["r0", "r1"])
    assert await store.statements(["r0", "r1"]) == {RECEIPT.job: statement}
    found = await store.find("r0")
    assert found is not None
    assert found.answer == replace(ANSWER, body=None)


async def test_a_response_too_large_for_a_document_is_refused(connection: StoreConnection) -> None:
    store = MongoIdempotencyStore(connection)
    await store.insert(IDEMPOTENT)
    with pytest.raises(RecordRefused):
        await store.finish("r0", "run-0", KeptAnswer(200, {}, os.urandom(17 * 2**20)))


async def test_a_ttl_index_deletes_expired_keys(connection: StoreConnection) -> None:
    indexes = await connection.durable("idempotency").index_information()
    assert [index["expireAfterSeconds"] for index in indexes.values() if "expireAfterSeconds" in index] == [0]


async def test_the_parts_of_a_receipt_are_stored_with_the_answer(connection: StoreConnection) -> None:
    store = MongoIdempotencyStore(connection)
    reported = ReportedUsage(attempt="a1", usage=RECEIPT.usage, parts=(ROUTING, CALL))
    receipt = msgspec_replace(RECEIPT, parts=[ROUTING, CALL], reported=reported)
    assert await store.insert(IDEMPOTENT) is None
    assert await store.finish(IDEMPOTENT.id, IDEMPOTENT.run_id, replace(ANSWER, receipts=[receipt]))
    statement = (await store.statements([IDEMPOTENT.id]))[receipt.job]
    assert (statement.usage, statement.parts, statement.reported) == (receipt.usage, (ROUTING, CALL), reported)


async def test_answers_at_the_same_time_are_stored_or_refused_each_by_itself(connection: StoreConnection) -> None:
    store = MongoIdempotencyStore(connection)
    records = [replace(IDEMPOTENT, id=f"r{number}") for number in range(4)]
    assert await asyncio.gather(*map(store.insert, records)) == [None] * 4
    answer = replace(ANSWER, body=b"data: {}\n\n")
    unreadable = replace(answer, status=2**70)
    runs = ["run-0", "run-1", "run-0", "run-0"]
    held = await asyncio.gather(
        *(
            store.finish(record.id, run, unreadable if record.id == "r2" else answer)
            for record, run in zip(records, runs, strict=True)
        ),
        return_exceptions=True,
    )
    assert [each if isinstance(each, bool) else type(each) for each in held] == [True, False, RecordRefused, True]
    stored = [await store.find(record.id) for record in records]
    assert [each.answer if each else each for each in stored] == [answer, None, None, answer]
