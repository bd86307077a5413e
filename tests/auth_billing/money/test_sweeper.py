"""When the sweeper settles or releases: after an outage, for a silent gateway, past a deadline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from auth_billing.errors import StoreUnavailable
from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import (
    BillingStores,
    Charge,
    FinalUsage,
    JobState,
    SettlementSource,
    UsageStatement,
)
from auth_billing.money.holds import month_of
from auth_billing.money.settler import Settler
from auth_billing.money.sweeper import Sweeper
from auth_billing.prices.pricing import PriceList
from router.messages import Outcome, Usage, UsagePart
from router.timings import DEFAULT_TIMINGS
from router.usage_arithmetic import JobUsage
from tests.auth_billing.money.test_usage_records import record
from tests.auth_billing.workload import (
    HELD,
    HELD_FOR_PARTS,
    MAX_PARTS,
    ORGANISATION,
    PART_PRICES,
    check_idle,
    hold,
    hold_request,
    principal,
)
from tests.fakes.accounts import Absence, DictUsageStore, FakeClock
from tests.fakes.billing_stores import DictAnsweredJobs, DictBalanceStore, DictJobStore, dict_billing_stores, price_book

INTERVAL = DEFAULT_TIMINGS.sweep_interval
CREDIT = 1_000 * HELD
DELIVERED = Usage(prompt_tokens=10, completion_tokens=6)


class SweeperStage:
    """A sweeper that runs every `INTERVAL` seconds of a fake clock."""

    def __init__(self, prices: PriceList | None = None) -> None:
        self.absence = Absence()
        self.stores: BillingStores = dict_billing_stores(self.absence)
        self.usage = DictUsageStore()
        self.clock = FakeClock(50_000.0)
        self.wall = FakeClock(1_700_000_000.0)
        self.metrics = BillingMetrics(CollectorRegistry())
        self.settler = Settler(self.stores, self.metrics, clock=self.wall)
        self.billing = Billing(self.stores, price_book(prices), clock=self.wall)
        self.flowing = True
        self.sweeper = self.new_sweeper()

    def new_sweeper(self) -> Sweeper:
        return Sweeper(
            self.stores,
            self.usage,
            self.settler,
            self.metrics,
            flowing=lambda: self.flowing,
            clock=self.wall,
            monotonic=self.clock,
        )

    async def hold(
        self, *jobs: str, seconds: float = 600.0, idempotency: str = "", max_parts: Sequence[UsagePart] = ()
    ) -> None:
        balances = self.balances
        await balances.create(ORGANISATION)
        balance = balances.balances[ORGANISATION]
        balances.balances[ORGANISATION] = replace(
            balance, available=balance.available + len(jobs) * (HELD + (HELD_FOR_PARTS if max_parts else 0))
        )
        deadline = self.wall.now + seconds
        requests = [hold_request(job, deadline=deadline, idempotency=idempotency, max_parts=max_parts) for job in jobs]
        await hold(self.billing, principal(), requests)

    async def pass_time(self, seconds: float, *, gateway_lives: bool = True) -> None:
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now += INTERVAL
            self.wall.now += INTERVAL
            if gateway_lives and not self.absence.away:
                await self.billing.record_heartbeat("gateway-1")
            try:
                await self.sweeper.sweep()
            except StoreUnavailable:
                assert self.absence.away

    @property
    def balances(self) -> DictBalanceStore:
        assert isinstance(self.stores.balances, DictBalanceStore)
        return self.stores.balances

    @property
    def answers(self) -> DictAnsweredJobs:
        assert isinstance(self.stores.answers, DictAnsweredJobs)
        return self.stores.answers

    @property
    def jobs(self) -> DictJobStore:
        assert isinstance(self.stores.jobs, DictJobStore)
        return self.stores.jobs


@pytest.fixture
def stage() -> SweeperStage:
    return SweeperStage()


async def test_a_job_of_a_live_gateway_is_swept_only_after_its_deadline(stage: SweeperStage) -> None:
    await stage.hold("job-1")
    await stage.pass_time(640)
    assert stage.jobs.jobs["job-1"].state is JobState.HELD
    await stage.pass_time(120)
    final = stage.jobs.jobs["job-1"].final
    assert final is not None
    assert final.source is SettlementSource.SWEPT
    assert await check_idle(stage.stores, ORGANISATION, HELD, ["job-1"]) == 0


@pytest.mark.parametrize(
    ("checkpoint", "reported", "cost"),
    [
        (None, None, 0),
        (None, Usage(prompt_tokens=10, completion_tokens=50), 0),
        (DELIVERED, None, 80),
        (DELIVERED, Usage(prompt_tokens=10, completion_tokens=50), 80),
        (DELIVERED, Usage(prompt_tokens=10, completion_tokens=4), 60),
        (DELIVERED, Usage(prompt_tokens=10, completion_tokens=4, cached_tokens=5), 55),
        (DELIVERED, Usage(prompt_tokens=0), 0),  # what the reaper reports of a dead job
    ],
)
async def test_jobs_of_a_silent_gateway_cost_the_lesser_of_checkpoint_and_record(
    stage: SweeperStage, checkpoint: Usage | None, reported: Usage | None, cost: int
) -> None:
    await stage.hold("job-1")
    await stage.pass_time(30)
    if checkpoint is not None:
        await stage.billing.checkpoint({"job-1": JobUsage(checkpoint)})
    if reported is not None:
        await stage.usage.add(record(job="job-1", usage=reported))
    await stage.pass_time(25, gateway_lives=False)
    assert stage.jobs.jobs["job-1"].state is JobState.HELD
    await stage.pass_time(15, gateway_lives=False)
    assert await check_idle(stage.stores, ORGANISATION, HELD, ["job-1"]) == cost


@pytest.mark.parametrize(("answered", "cost"), [(False, 0), (True, 80)])
async def test_a_job_with_an_idempotency_key_costs_what_is_stored_with_its_answer(
    stage: SweeperStage, answered: bool, cost: int
) -> None:
    """Without a stored answer a repeated request runs, and is billed, from the beginning."""
    await stage.hold("job-1", "job-of-the-dead-run", idempotency="record")
    await stage.pass_time(30)
    checkpoints = dict.fromkeys(
        ("job-1", "job-of-the-dead-run"), JobUsage(Usage(prompt_tokens=10, completion_tokens=2))
    )
    await stage.billing.checkpoint(checkpoints)
    if answered:
        statement = UsageStatement(DELIVERED, Outcome.FINISHED, SettlementSource.SWEPT)
        stage.answers.by_record["record"] = {"job-1": statement}
    await stage.pass_time(45, gateway_lives=False)
    assert await check_idle(stage.stores, ORGANISATION, 2 * HELD, ["job-1", "job-of-the-dead-run"]) == cost


async def test_a_gateway_without_any_heartbeat_is_silent(stage: SweeperStage) -> None:
    await stage.hold("job-1")
    await stage.pass_time(45, gateway_lives=False)
    assert await check_idle(stage.stores, ORGANISATION, HELD, ["job-1"]) == 0


async def test_waiting_receipts_are_settled_first_after_an_outage(stage: SweeperStage) -> None:
    await stage.hold("job-1")
    await stage.pass_time(60)
    stage.absence.away = True
    await stage.pass_time(3_600)
    stage.absence.away = False
    await stage.pass_time(25, gateway_lives=False)
    assert stage.jobs.jobs["job-1"].state is JobState.HELD
    await stage.settler.settle({"job-1": UsageStatement(DELIVERED, Outcome.FINISHED, SettlementSource.RECEIPT)})
    await stage.pass_time(900)
    assert await check_idle(stage.stores, ORGANISATION, HELD, ["job-1"]) == 80


async def test_nothing_is_swept_while_receipts_do_not_flow(stage: SweeperStage) -> None:
    await stage.hold("job-1")
    stage.flowing = False
    await stage.pass_time(3_600, gateway_lives=False)
    stage.flowing = True
    await stage.pass_time(25, gateway_lives=False)
    assert stage.jobs.jobs["job-1"].state is JobState.HELD


async def test_a_clock_that_jumps_settles_nothing(stage: SweeperStage) -> None:
    await stage.hold("job-1")
    await stage.pass_time(60)
    for step in (7_200.0, -14_400.0):
        stage.wall.now += step
        await stage.pass_time(120)
    assert stage.jobs.jobs["job-1"].state is JobState.HELD


async def test_an_abandoned_settlement_is_finished(stage: SweeperStage) -> None:
    await stage.hold("job-1")
    job = stage.jobs.jobs["job-1"]
    await stage.jobs.charge(
        [Charge(job, 80, FinalUsage(DELIVERED, Outcome.FINISHED, SettlementSource.RECEIPT, stage.wall.now))]
    )
    await stage.pass_time(5)
    assert stage.jobs.jobs["job-1"].state is JobState.SETTLING
    await stage.pass_time(20)
    assert await check_idle(stage.stores, ORGANISATION, HELD, ["job-1"]) == 80


async def test_a_hold_without_a_job_is_released_and_a_job_without_a_hold_settled(stage: SweeperStage) -> None:
    await stage.hold("job-1", "job-2")
    del stage.jobs.jobs["job-1"]
    balance = stage.balances.balances[ORGANISATION]
    stage.balances.balances[ORGANISATION] = replace(balance, held={"job-1": balance.held["job-1"]})
    await stage.pass_time(25)
    assert set(stage.balances.balances[ORGANISATION].held) == {"job-1"}
    await stage.pass_time(720)
    assert stage.balances.balances[ORGANISATION].held == {}
    assert stage.jobs.jobs["job-2"].state is JobState.SETTLED


async def test_the_lease_of_a_silent_gateway_is_released(stage: SweeperStage) -> None:
    balances = stage.balances
    await balances.create(ORGANISATION)
    balances.balances[ORGANISATION] = replace(balances.balances[ORGANISATION], available=CREDIT)
    for job in ("job-1", "job-2"):
        await hold(stage.billing, principal(), [hold_request(job)])
    await stage.settler.settle(
        {job: UsageStatement(DELIVERED, Outcome.FINISHED, SettlementSource.RECEIPT) for job in ("job-1", "job-2")}
    )
    (lease,) = balances.balances[ORGANISATION].leases.items()
    for _ in range(24):
        await stage.stores.heartbeats.increment("gateway-1")
        await stage.pass_time(5, gateway_lives=False)
    assert dict([lease]) == balances.balances[ORGANISATION].held
    await stage.pass_time(70, gateway_lives=False)
    assert await check_idle(stage.stores, ORGANISATION, CREDIT, ["job-1", "job-2"]) == 2 * 80


async def test_past_months_are_deleted(stage: SweeperStage) -> None:
    for month in range(1, 6):
        stage.wall.now += 31 * 86400
        await stage.hold(f"job-{month}")
        if month < 5:
            await stage.settler.settle(
                {f"job-{month}": UsageStatement(DELIVERED, Outcome.FINISHED, SettlementSource.RECEIPT)}
            )
    await stage.pass_time(10)
    used = stage.balances.balances[ORGANISATION].used
    assert len(used) == 3
    assert month_of(stage.wall.now) in used


@pytest.mark.parametrize(
    ("delivered", "reported", "cost"),
    [
        (0, None, 0),
        (2, None, 600 + 80),
        (2, 4, 600 + 80),
        (3, 1, 300 + 80),
    ],
)
async def test_the_parts_of_a_silent_gateways_jobs_cost_the_lesser_of_checkpoint_and_record(
    delivered: int, reported: int | None, cost: int
) -> None:
    def drawn(count: int) -> UsagePart:
        return UsagePart(model="painter", usage=Usage(prompt_tokens=0, units={"512x512": count}))

    stage = SweeperStage(PART_PRICES)
    await stage.hold("job-1", max_parts=MAX_PARTS)
    await stage.pass_time(30)
    if delivered:
        await stage.billing.checkpoint({"job-1": JobUsage(DELIVERED, (drawn(delivered),))})
    if reported is not None:
        crashed = record(job="job-1", usage=Usage(prompt_tokens=10), parts=[drawn(1)])
        await stage.usage.add(msgspec.structs.replace(crashed, attempt="first"))
        await stage.usage.add(record(job="job-1", usage=DELIVERED, parts=[drawn(reported)]))
    await stage.pass_time(40, gateway_lives=False)
    assert await check_idle(stage.stores, ORGANISATION, HELD + HELD_FOR_PARTS, ["job-1"]) == cost
