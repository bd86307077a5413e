"""Hours are added up one after the other, once, when nothing can be settled in them any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from auth_billing.money.books import Charge, JobState
from auth_billing.money.usage_hours import HOUR, KEPT_BACK, LATEST_SECONDS, Span, UsageHours
from auth_billing.money.usage_reports import Dimension, UsageFilter
from auth_billing.people.organisation_records import Organisation
from auth_billing.store.accounts import MongoAccountStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.indexes import create_indexes
from auth_billing.store.jobs import COLLECTION, MongoJobStore
from auth_billing.store.usage_hours import MongoHourStore
from auth_billing.store.usage_reports import MongoUsageReports
from tests.auth_billing.money.test_usage_reports import settled

ORGANISATION = Organisation("org-0", "Org 0", created=1.5 * HOUR)


@dataclass
class ListHours:
    """Keeps what is asked of it."""

    known: list[Organisation] = field(default_factory=lambda: [ORGANISATION])
    settling: float | None = None
    spans: dict[str, Span] = field(default_factory=dict)
    hours: list[int] = field(default_factory=list)

    async def organisations(self) -> Sequence[Organisation]:
        return self.known

    async def is_settling(self, before: float) -> bool:
        return self.settling is not None and self.settling < before

    async def span(self, organisation: str) -> Span | None:
        return self.spans.get(organisation)

    async def begin(self, organisation: str, at: int) -> None:
        self.spans.setdefault(organisation, Span(at, at))

    async def add_up(self, organisation: str, hour: int) -> None:
        self.hours.append(hour)
        self.spans[organisation] = Span(self.spans[organisation].since, hour + HOUR)


async def test_an_hour_is_added_up_when_it_has_been_over_for_long_enough() -> None:
    store, now = ListHours(), 4.0 * HOUR + LATEST_SECONDS - 1
    chore = UsageHours(store, clock=lambda: now)
    await chore.add_up_all()
    assert store.hours == [HOUR, 2 * HOUR]  # from the one in which the organisation was made
    now += 1
    await chore.add_up_all()
    await chore.add_up_all()
    assert store.hours == [HOUR, 2 * HOUR, 3 * HOUR]


async def test_an_unfinished_settlement_of_such_an_hour_is_waited_for() -> None:
    store = ListHours(settling=4.0 * HOUR - 1)
    chore = UsageHours(store, clock=lambda: 4.0 * HOUR + LATEST_SECONDS)
    await chore.add_up_all()
    assert store.hours == []
    store.settling = 4.0 * HOUR  # it will count in the next one
    await chore.add_up_all()
    assert store.hours == [HOUR, 2 * HOUR, 3 * HOUR]


async def test_of_an_old_organisation_a_month_is_added_up_and_of_a_new_one_nothing_yet() -> None:
    now = 100 * 24 * HOUR
    new = Organisation("org-1", "Org 1", created=now + LATEST_SECONDS)
    store = ListHours(known=[ORGANISATION, new])
    await UsageHours(store, clock=lambda: now + LATEST_SECONDS).add_up_all()
    assert store.spans == {"org-0": Span(now - KEPT_BACK, now), "org-1": Span(now, now)}


@pytest.mark.parametrize(
    ("since", "until", "within"),
    [(0, 9 * HOUR, (HOUR, 5 * HOUR)), (2 * HOUR + 1, 4 * HOUR - 1, (3 * HOUR, 3 * HOUR)), (7 * HOUR, 8 * HOUR, None)],
)
def test_whole_hours_of_a_report(since: int, until: int, within: tuple[int, int] | None) -> None:
    found = Span(HOUR, 5 * HOUR).within(since, until)
    assert (found.since, found.until) == within if within else found.since >= found.until


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[StoreConnection]:
    connection = StoreConnection(database_url, operation_ms=20_000)
    await create_indexes(connection)
    yield connection
    connection.close()


@pytest.mark.store
async def test_reports_read_the_sums_and_any_number_of_processes_adds_up_once(connection: StoreConnection) -> None:
    jobs, store = [each for each in settled() if each.state is JobState.SETTLED], MongoJobStore(connection)
    await MongoAccountStore(connection).ensure_organisation(ORGANISATION)
    await store.insert([replace(each, state=JobState.HELD) for each in jobs])
    await store.charge([Charge(each, each.cost or 0, each.final) for each in jobs if each.final])
    hours = MongoHourStore(connection)
    chore = UsageHours(hours, clock=lambda: 3 * HOUR + LATEST_SECONDS)
    assert await hours.is_settling(3 * HOUR)
    await store.finish([each.id for each in jobs])
    wanted, reports = UsageFilter("org-0", 0, 3 * HOUR), MongoUsageReports(connection)
    before = await reports.rows(wanted, HOUR, list(Dimension), 100)
    await asyncio.gather(chore.add_up_all(), chore.add_up_all(), chore.add_up_all())
    await chore.add_up_all()
    assert await hours.span("org-0") == Span(HOUR, 3 * HOUR)
    assert await reports.rows(wanted, HOUR, list(Dimension), 100) == before
    await connection.durable(COLLECTION).delete_many({"final.at": {"$gte": HOUR}})
    assert await reports.rows(wanted, HOUR, list(Dimension), 100) == before
