"""A receipt settles its job once, whatever is repeated, reordered, late or unavailable."""

from __future__ import annotations

import random
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import BillingStores, JobState
from auth_billing.money.settler import Settler
from router import topology
from router.bus import Bus
from router.diagnosis import REASON_HEADER
from router.messages import Outcome, Receipt, ReportedUsage, Usage
from router.transport.memory import MemoryTransport
from tests.auth_billing.conftest import Buses, Eventually
from tests.auth_billing.money.test_usage_records import ready, record, running_settlement
from tests.auth_billing.workload import HELD, ORGANISATION, check_idle, hold, hold_request, principal
from tests.contract.examples import msgspec_replace
from tests.fakes.accounts import Absence, DictUsageStore
from tests.fakes.billing_stores import DictBalanceStore, dict_billing_stores, price_book

COST = 100 * 2 + 3 * 10


def receipt(job: str, tokens: int = 3, outcome: Outcome = Outcome.FINISHED) -> Receipt:
    usage = Usage(prompt_tokens=100, completion_tokens=tokens)
    return Receipt(job=job, tenant=ORGANISATION, gateway="gateway-1", outcome=outcome, usage=usage, at=1.0)


class SettlementStage:
    def __init__(self) -> None:
        self.absence = Absence()
        self.stores: BillingStores = dict_billing_stores(self.absence)
        self.usage = DictUsageStore()
        self.metrics = BillingMetrics(CollectorRegistry())

    async def hold(self, *jobs: str) -> None:
        balances = self.stores.balances
        assert isinstance(balances, DictBalanceStore)
        await balances.create(ORGANISATION)
        balances.balances[ORGANISATION] = replace(balances.balances[ORGANISATION], available=len(jobs) * HELD)
        await hold(Billing(self.stores, price_book()), principal(), [hold_request(job) for job in jobs])

    def on(self, bus: Bus) -> AbstractAsyncContextManager[None]:
        return running_settlement(bus, self.usage, Settler(self.stores, self.metrics), self.metrics)

    async def state(self, job: str) -> JobState:
        return (await self.stores.jobs.find([job]))[job].state

    def receipts(self, verdict: str) -> float:
        return self.metrics.receipts.labels(verdict)._value.get()


@pytest.fixture
def stage() -> SettlementStage:
    return SettlementStage()


async def test_repeated_and_reordered_messages_settle_once(
    buses: Buses, stage: SettlementStage, eventually: Eventually
) -> None:
    """Exactly-once settlement (docs/design/reliability-contract.md#F21)."""
    jobs = [f"job-{number}" for number in range(40)]
    await stage.hold(*jobs)
    messages = [message for job in jobs for message in (receipt(job), record(job=job)) for _ in range(3)]
    random.Random(5).shuffle(messages)
    async with stage.on(buses.billing):
        for message in messages:
            await buses.others.publish_settlement(message)
        await eventually(lambda: stage.receipts("settled") + stage.receipts("repeated") == 120)
    await buses.billing.close()
    assert ready(buses.broker) == 0
    assert ready(buses.broker, topology.PARKED_QUEUE) == 0
    assert stage.receipts("settled") == 40
    assert await check_idle(stage.stores, ORGANISATION, 40 * HELD, jobs) == 40 * COST


async def test_a_conflicting_receipt_is_ignored_and_counted(
    buses: Buses, stage: SettlementStage, eventually: Eventually
) -> None:
    await stage.hold("job-1")
    async with stage.on(buses.billing):
        for tokens in (3, 4, 5):
            await buses.others.publish_settlement(receipt("job-1", tokens))
        await eventually(lambda: stage.receipts("conflicting") == 2)
    assert await check_idle(stage.stores, ORGANISATION, HELD, ["job-1"]) == COST


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (receipt("job-unknown"), "no such job"),
        (receipt("no id"), "malformed"),
        (receipt("job-1", 2**63), "<= 9007199254740991"),
    ],
)
async def test_invalid_and_unknown_receipts_are_parked(
    buses: Buses, stage: SettlementStage, eventually: Eventually, wrong: Receipt, reason: str
) -> None:
    await stage.hold("job-1")
    async with stage.on(buses.billing):
        await buses.others.publish_settlement(wrong)
        await eventually(lambda: ready(buses.broker, topology.PARKED_QUEUE) == 1)
    assert await stage.state("job-1") is JobState.HELD
    transport = MemoryTransport(buses.broker, "operator")
    await transport.start()
    parked = await transport.consume(topology.PARKED_QUEUE, prefetch=1)
    assert reason in str((await anext(aiter(parked))).headers[REASON_HEADER])


@pytest.mark.parametrize(
    ("reported", "kept"),
    [
        (ReportedUsage(attempt="a1", usage=Usage(prompt_tokens=100, completion_tokens=9)), True),
        (ReportedUsage(attempt="no id", usage=Usage(prompt_tokens=100)), False),
        (ReportedUsage(attempt="a1", usage=Usage(prompt_tokens=1, cached_tokens=2)), False),
    ],
)
async def test_what_a_worker_reported_is_kept_if_it_can_be_true(
    buses: Buses, stage: SettlementStage, eventually: Eventually, reported: ReportedUsage, kept: bool
) -> None:
    await stage.hold("job-1")
    async with stage.on(buses.billing):
        await buses.others.publish_settlement(msgspec_replace(receipt("job-1"), reported=reported))
        await eventually(lambda: stage.receipts("settled") == 1)
    final = (await stage.stores.jobs.find(["job-1"]))["job-1"].final
    assert final is not None
    assert (final.usage.completion_tokens, final.reported) == (3, reported if kept else None)


async def test_receipts_wait_for_an_unavailable_store(
    buses: Buses, stage: SettlementStage, eventually: Eventually
) -> None:
    """The store is unavailable and comes back (docs/design/reliability-contract.md#F14)."""
    jobs = [f"job-{number}" for number in range(20)]
    await stage.hold(*jobs)
    stage.absence.away = True
    async with stage.on(buses.billing):
        for job in jobs:
            await buses.others.publish_settlement(receipt(job))
        asked = stage.absence.asked
        await eventually(lambda: stage.absence.asked > asked + 5)
        stage.absence.away = False
        await eventually(lambda: stage.receipts("settled") == 20)
    assert await check_idle(stage.stores, ORGANISATION, 20 * HELD, jobs) == 20 * COST


@pytest.mark.parametrize("failures", range(1, 12))
async def test_a_settlement_that_fails_at_any_step_is_repeated(
    buses: Buses, stage: SettlementStage, eventually: Eventually, failures: int
) -> None:
    await stage.hold("job-1", "job-2")
    stage.absence.failures_after = failures
    async with stage.on(buses.billing):
        await buses.others.publish_settlement(receipt("job-1"))
        await buses.others.publish_settlement(receipt("job-2", 0))
        await eventually(lambda: stage.receipts("settled") + stage.receipts("repeated") == 2)
    stage.absence.failures_after = 0  # receipts of one batch need fewer steps
    assert await check_idle(stage.stores, ORGANISATION, 2 * HELD, ["job-1", "job-2"]) == COST + 200
