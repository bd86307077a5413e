"""Hours are rolled up in order, once, when no job can be settled in them any more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from auth_billing.money.billing_records import Charge, JobState
from auth_billing.money.usage_reports import Dimension, UsageFilter
from auth_billing.money.usage_rollups import HOUR, MAX_BACKFILL, SETTLEMENT_DELAY, RollupSpan, UsageRollups
from auth_billing.people.organisation_records import Organisation
from auth_billing.store.connection import StoreConnection
from auth_billing.store.jobs import COLLECTION, MongoJobStore
from auth_billing.store.organisations import MongoOrganisationStore
from auth_billing.store.usage_reports import MongoUsageReports
from auth_billing.store.usage_rollups import MongoRollupStore
from tests.auth_billing.money.test_usage_reports import settled

ORGANISATION = Organisation("org-0", "Org 0", created=1.5 * HOUR)


@dataclass
class MemoryRollupStore:
    """A rollup store in memory that records the hours that were rolled up."""

    known: list[Organisation] = field(default_factory=lambda: [ORGANISATION])
    settling: float | None = None
    spans: dict[str, RollupSpan] = field(default_factory=dict)
    hours: list[int] = field(default_factory=list)

    async def organisations(self) -> Sequence[Organisation]:
        return self.known

    async def is_settling(self, before: float) -> bool:
        return self.settling is not None and self.settling < before

    async def span(self, organisation: str) -> RollupSpan | None:
        return self.spans.get(organisation)

    async def start(self, organisation: str, at: int) -> None:
        self.spans.setdefault(organisation, RollupSpan(at, at))

    async def roll_up(self, organisation: str, hour: int) -> None:
        self.hours.append(hour)
        self.spans[organisation] = RollupSpan(self.spans[organisation].since, hour + HOUR)


async def test_an_hour_is_rolled_up_after_the_settlement_delay() -> None:
    store, now = MemoryRollupStore(), 4.0 * HOUR + SETTLEMENT_DELAY - 1
    rollups = UsageRollups(store, clock=lambda: now)
    await rollups.roll_up_all()
    assert store.hours == [HOUR, 2 * HOUR]  # from the hour in which the organisation was created
    now += 1
    await rollups.roll_up_all()
    await rollups.roll_up_all()
    assert store.hours == [HOUR, 2 * HOUR, 3 * HOUR]


async def test_an_unfinished_settlement_delays_the_rollup() -> None:
    store = MemoryRollupStore(settling=4.0 * HOUR - 1)
    rollups = UsageRollups(store, clock=lambda: 4.0 * HOUR + SETTLEMENT_DELAY)
    await rollups.roll_up_all()
    assert store.hours == []
    store.settling = 4.0 * HOUR  # it counts in the next hour
    await rollups.roll_up_all()
    assert store.hours == [HOUR, 2 * HOUR, 3 * HOUR]


async def test_the_first_rollup_goes_back_a_month_at_most() -> None:
    now = 100 * 24 * HOUR
    new = Organisation("org-1", "Org 1", created=now + SETTLEMENT_DELAY)
    store = MemoryRollupStore(known=[ORGANISATION, new])
    await UsageRollups(store, clock=lambda: now + SETTLEMENT_DELAY).roll_up_all()
    assert store.spans == {"org-0": RollupSpan(now - MAX_BACKFILL, now), "org-1": RollupSpan(now, now)}


@pytest.mark.parametrize(
    ("since", "until", "within"),
    [(0, 9 * HOUR, (HOUR, 5 * HOUR)), (2 * HOUR + 1, 4 * HOUR - 1, (3 * HOUR, 3 * HOUR)), (7 * HOUR, 8 * HOUR, None)],
)
def test_a_span_covers_the_whole_hours_of_a_period(since: int, until: int, within: tuple[int, int] | None) -> None:
    found = RollupSpan(HOUR, 5 * HOUR).within(since, until)
    assert (found.since, found.until) == within if within else found.since >= found.until


@pytest.mark.store
async def test_concurrent_rollups_count_once_and_reports_read_them(connection: StoreConnection) -> None:
    jobs, store = [each for each in settled() if each.state is JobState.SETTLED], MongoJobStore(connection)
    await MongoOrganisationStore(connection).ensure_organisation(ORGANISATION)
    await store.insert([replace(each, state=JobState.HELD) for each in jobs])
    await store.charge([Charge(each, each.cost or 0, each.final) for each in jobs if each.final])
    hours = MongoRollupStore(connection)
    rollups = UsageRollups(hours, clock=lambda: 3 * HOUR + SETTLEMENT_DELAY)
    assert await hours.is_settling(3 * HOUR)
    await store.finish([each.id for each in jobs])
    wanted, reports = UsageFilter("org-0", 0, 3 * HOUR), MongoUsageReports(connection)
    before = await reports.rows(wanted, HOUR, list(Dimension), 100)
    await asyncio.gather(rollups.roll_up_all(), rollups.roll_up_all(), rollups.roll_up_all())
    await rollups.roll_up_all()
    assert await hours.span("org-0") == RollupSpan(HOUR, 3 * HOUR)
    assert await reports.rows(wanted, HOUR, list(Dimension), 100) == before
    await connection.durable(COLLECTION).delete_many({"final.at": {"$gte": HOUR}})
    assert await reports.rows(wanted, HOUR, list(Dimension), 100) == before
