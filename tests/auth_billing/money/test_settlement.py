"""The consumer of the settlement queue: usage records and receipts in any order, and whether receipts wait."""

from __future__ import annotations

import asyncio

import pytest
from tenacity import wait_fixed

from auth_billing.money import settlement
from auth_billing.money.billing_records import JobState
from auth_billing.money.settlement import SettlementConsumer
from auth_billing.money.settler import Settler
from router.messages import Receipt, UsageRecord
from tests.auth_billing.conftest import Buses, Eventually
from tests.auth_billing.money.test_receipts import SettlementStage, receipt
from tests.auth_billing.money.test_usage_records import record


@pytest.mark.parametrize("reverse", [False, True], ids=["record first", "receipt first"])
async def test_a_record_is_stored_and_a_receipt_settles_in_any_order(
    buses: Buses, eventually: Eventually, reverse: bool
) -> None:
    stage = SettlementStage()
    await stage.hold("chatcmpl-0")
    messages: list[UsageRecord | Receipt] = [record(0, tokens=9), receipt("chatcmpl-0", 3)]
    async with stage.on(buses.billing):
        for message in reversed(messages) if reverse else messages:
            await buses.others.publish_settlement(message)
        await eventually(lambda: stage.receipts("settled") == 1 and bool(stage.usage.records))
    job = (await stage.stores.jobs.find(["chatcmpl-0"]))["chatcmpl-0"]
    assert job.final is not None
    assert (job.state, job.final.usage.completion_tokens) == (JobState.SETTLED, 3)  # the receipt's, not the record's


async def test_a_consumer_with_a_full_prefetch_does_not_keep_up(
    buses: Buses, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlement, "PREFETCH", 2)
    stage, stop = SettlementStage(), asyncio.Event()
    await stage.hold("job-1", "job-2")
    consumer = SettlementConsumer(
        buses.billing,
        stage.usage,
        Settler(stage.stores, stage.metrics),
        metrics=stage.metrics,
        retry_wait=wait_fixed(0.001),
    )
    assert consumer.keeps_up
    stage.absence.away = True
    async with asyncio.TaskGroup() as group:
        group.create_task(consumer.run(stop))
        for job in ("job-1", "job-2"):
            await buses.others.publish_settlement(receipt(job))
        await eventually(lambda: not consumer.keeps_up)
        stage.absence.away = False
        await eventually(lambda: consumer.keeps_up and stage.receipts("settled") == 2)
        stop.set()
