"""What the sweeper settles, what it leaves alone, and when: after an outage, for a silent gateway, past a deadline."""

from __future__ import annotations

from dataclasses import replace

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
from auth_billing.money.sweeper import INTERVAL, Sweeper
from router.messages import Outcome, Usage
from tests.auth_billing.money.test_settlement import record
from tests.auth_billing.workload import HELD, ORGANISATION, check_idle, hold, hold_request, principal
from tests.fakes.accounts import Absence, DictUsageStore, FakeClock
from tests.fakes.billing_stores import DictBalanceStore, DictJobStore, dict_billing_stores, price_book

PLENTY = 1_000 * HELD
SAID = Usage(prompt_tokens=10, completion_tokens=6)


class Sweeping:
    """A sweeper that looks every `INTERVAL` seconds of a clock of the test's own."""

    def __init__(self) -> None:
        self.absence = Absence()
        self.stores: BillingStores = dict_billing_stores(self.absence)
        self.usage = DictUsageStore()
        self.clock = FakeClock(50_000.0)
        self.wall = FakeClock(1_700_000_000.0)
        self.metrics = BillingMetrics(CollectorRegistry())
        self.settler = Settler(self.stores, self.metrics, clock=self.wall)
        self.billing = Billing(self.stores, price_book(), clock=self.wall)
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

    async def hold(self, *jobs: str, seconds: float = 600.0) -> None:
        balances = self.balances
        await balances.create(ORGANISATION)
        balance = balances.balances[ORGANISATION]
        balances.balances[ORGANISATION] = replace(balance, available=balance.available + len(jobs) * HELD)
        await hold(self.billing, principal(), [hold_request(job, deadline=self.wall.now + seconds) for job in jobs])

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
    def jobs(self) -> DictJobStore:
        assert isinstance(self.stores.jobs, DictJobStore)
        return self.stores.jobs


@pytest.fixture
def sweeping() -> Sweeping:
    return Sweeping()


async def test_a_job_of_a_live_gateway_is_left_alone_until_its_time_is_over(sweeping: Sweeping) -> None:
    await sweeping.hold("job-1")
    await sweeping.pass_time(640)
    assert sweeping.jobs.jobs["job-1"].state is JobState.HELD
    await sweeping.pass_time(120)
    assert sweeping.jobs.jobs["job-1"].final.source is SettlementSource.SWEPT
    assert await check_idle(sweeping.stores, ORGANISATION, HELD, ["job-1"]) == 0


@pytest.mark.parametrize(
    ("checkpoint", "reported", "cost"),
    [
        (None, None, 0),
        (None, Usage(prompt_tokens=10, completion_tokens=50), 0),
        (SAID, None, 80),
        (SAID, Usage(prompt_tokens=10, completion_tokens=50), 80),
        (SAID, Usage(prompt_tokens=10, completion_tokens=4), 60),
        (SAID, Usage(prompt_tokens=10, completion_tokens=4, cached_tokens=5), 55),
        (SAID, Usage(prompt_tokens=0), 0),  # what the reaper reports of a dead job
    ],
)
async def test_jobs_of_a_silent_gateway_cost_the_least_that_somebody_said(
    sweeping: Sweeping, checkpoint: Usage | None, reported: Usage | None, cost: int
) -> None:
    await sweeping.hold("job-1")
    await sweeping.pass_time(30)
    if checkpoint is not None:
        await sweeping.billing.checkpoint({"job-1": checkpoint})
    if reported is not None:
        await sweeping.usage.add(record(job="job-1", usage=reported))
    await sweeping.pass_time(25, gateway_lives=False)
    assert sweeping.jobs.jobs["job-1"].state is JobState.HELD
    await sweeping.pass_time(15, gateway_lives=False)
    assert await check_idle(sweeping.stores, ORGANISATION, HELD, ["job-1"]) == cost


async def test_a_gateway_that_never_gave_a_sign_is_silent(sweeping: Sweeping) -> None:
    await sweeping.hold("job-1")
    await sweeping.pass_time(45, gateway_lives=False)
    assert await check_idle(sweeping.stores, ORGANISATION, HELD, ["job-1"]) == 0


async def test_after_an_outage_receipts_that_waited_come_first(sweeping: Sweeping) -> None:
    await sweeping.hold("job-1")
    await sweeping.pass_time(60)
    sweeping.absence.away = True
    await sweeping.pass_time(3_600)
    sweeping.absence.away = False
    await sweeping.pass_time(25, gateway_lives=False)
    assert sweeping.jobs.jobs["job-1"].state is JobState.HELD
    await sweeping.settler.settle({"job-1": UsageStatement(SAID, Outcome.FINISHED, SettlementSource.RECEIPT)})
    await sweeping.pass_time(900)
    assert await check_idle(sweeping.stores, ORGANISATION, HELD, ["job-1"]) == 80


async def test_while_receipts_can_not_come_nothing_is_swept(sweeping: Sweeping) -> None:
    await sweeping.hold("job-1")
    sweeping.flowing = False
    await sweeping.pass_time(3_600, gateway_lives=False)
    sweeping.flowing = True
    await sweeping.pass_time(25, gateway_lives=False)
    assert sweeping.jobs.jobs["job-1"].state is JobState.HELD


async def test_a_clock_that_steps_settles_nothing(sweeping: Sweeping) -> None:
    await sweeping.hold("job-1")
    await sweeping.pass_time(60)
    for step in (7_200.0, -14_400.0):
        sweeping.wall.now += step
        await sweeping.pass_time(120)
    assert sweeping.jobs.jobs["job-1"].state is JobState.HELD


async def test_a_settlement_that_nobody_finished_is_finished(sweeping: Sweeping) -> None:
    await sweeping.hold("job-1")
    job = sweeping.jobs.jobs["job-1"]
    await sweeping.jobs.charge(
        [Charge(job, 80, FinalUsage(SAID, Outcome.FINISHED, SettlementSource.RECEIPT, sweeping.wall.now))]
    )
    await sweeping.pass_time(5)
    assert sweeping.jobs.jobs["job-1"].state is JobState.SETTLING
    await sweeping.pass_time(20)
    assert await check_idle(sweeping.stores, ORGANISATION, HELD, ["job-1"]) == 80


async def test_a_hold_without_a_job_is_given_back_and_a_job_without_a_hold_closed(sweeping: Sweeping) -> None:
    await sweeping.hold("job-1", "job-2")
    del sweeping.jobs.jobs["job-1"]
    balance = sweeping.balances.balances[ORGANISATION]
    sweeping.balances.balances[ORGANISATION] = replace(balance, held={"job-1": balance.held["job-1"]})
    await sweeping.pass_time(25)
    assert set(sweeping.balances.balances[ORGANISATION].held) == {"job-1"}
    await sweeping.pass_time(720)
    assert sweeping.balances.balances[ORGANISATION].held == {}
    assert sweeping.jobs.jobs["job-2"].state is JobState.SETTLED


async def test_the_lease_of_a_silent_gateway_is_given_back(sweeping: Sweeping) -> None:
    balances = sweeping.balances
    await balances.create(ORGANISATION)
    balances.balances[ORGANISATION] = replace(balances.balances[ORGANISATION], available=PLENTY)
    for job in ("job-1", "job-2"):
        await hold(sweeping.billing, principal(), [hold_request(job)])
    await sweeping.settler.settle(
        {job: UsageStatement(SAID, Outcome.FINISHED, SettlementSource.RECEIPT) for job in ("job-1", "job-2")}
    )
    (lease,) = balances.balances[ORGANISATION].leases.items()
    for _ in range(24):
        await sweeping.stores.heartbeats.increment("gateway-1")
        await sweeping.pass_time(5, gateway_lives=False)
    assert dict([lease]) == balances.balances[ORGANISATION].held
    await sweeping.pass_time(70, gateway_lives=False)
    assert await check_idle(sweeping.stores, ORGANISATION, PLENTY, ["job-1", "job-2"]) == 2 * 80


async def test_months_long_past_are_forgotten(sweeping: Sweeping) -> None:
    for month in range(1, 6):
        sweeping.wall.now += 31 * 86400
        await sweeping.hold(f"job-{month}")
        if month < 5:
            await sweeping.settler.settle(
                {f"job-{month}": UsageStatement(SAID, Outcome.FINISHED, SettlementSource.RECEIPT)}
            )
    await sweeping.pass_time(10)
    used = sweeping.balances.balances[ORGANISATION].used
    assert len(used) == 3
    assert month_of(sweeping.wall.now) in used
