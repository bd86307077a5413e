"""Usage reports count each settled job once, exact to the token and the nano-USD, from jobs and from rollups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import msgspec
import pytest

from auth_billing.money.billing_records import Charge, FinalUsage, JobRecord, JobState, SettlementSource
from auth_billing.money.ledger import settlement_entry
from auth_billing.money.usage_reports import Dimension, UsageFilter, UsageKind, UsageReports
from auth_billing.money.usage_rollups import SETTLEMENT_DELAY, UsageRollups
from auth_billing.people.organisation_records import Organisation
from auth_billing.prices.pricing import Price
from auth_billing.store.connection import StoreConnection
from auth_billing.store.indexes import create_indexes
from auth_billing.store.jobs import MongoJobStore
from auth_billing.store.organisations import MongoOrganisationStore
from auth_billing.store.usage_reports import MongoUsageReports
from auth_billing.store.usage_rollups import MongoRollupStore
from router.messages import Outcome, ServiceClass, Usage, UsagePart
from router.usage_arithmetic import JobUsage
from tests.fakes.usage_reports import ListUsageReports

HOUR = 3_600
DEAR = Price(input=987_654_321, cached_input=123_456_789, output=999_999_999, version=1)
ALL = UsageFilter("org-0", 0, 10 * HOUR)


def job(number: int, *, at: float, usage: Usage, **fields: object) -> JobRecord:
    """Return a settled job."""
    record = JobRecord(
        id=f"chatcmpl-{number}",
        organisation="org-0",
        project=f"proj_{number % 2}",
        key=f"key{number % 3}",
        user="user-0",
        model="org/model",
        service_class=ServiceClass.DEFAULT,
        gateway="gateway-1",
        created=at - 1,
        deadline=at + 100,
        month="1970-01",
        price=DEAR,
        hold=10**17,
        state=JobState.SETTLED,
        cost=DEAR.cost(usage),
        final=FinalUsage(usage, Outcome.FINISHED, SettlementSource.RECEIPT, at),
    )
    return replace(record, **fields)  # type: ignore[arg-type]


DRAWN = UsagePart(model="painter", usage=Usage(prompt_tokens=7, units={"512x512": 2, "call": 1}))
ROUTED = UsagePart(model="org/model", usage=Usage(prompt_tokens=40, completion_tokens=9, cached_tokens=30))
FREE = UsagePart(model="tool.free", usage=Usage(prompt_tokens=0, units={"call": 1}))
PART_PRICES = {
    "painter": Price(3, 3, 0, 1, units={"512x512": 5 * 10**9, "call": 2}),
    "org/model": DEAR,
    "tool.free": Price(0, 0, 0, 1),
}


def with_parts(record: JobRecord) -> JobRecord:
    """Return a settled job with three parts, one of its own model and one of units of its own."""
    assert record.final is not None
    used = replace(record.final, parts=(DRAWN, ROUTED, FREE))
    record = replace(record, part_prices=PART_PRICES, price=replace(DEAR, units={"call": 11}))
    usage = msgspec.structs.replace(used.usage, units={"call": 4})
    answer, parts = record.shares(JobUsage(usage, used.parts))
    return replace(record, cost=answer + sum(parts), final=replace(used, usage=usage, part_costs=parts))


def settled() -> list[JobRecord]:
    """Return thirty jobs over three hours, some jobs that do not count, and one of another organisation."""
    jobs = [
        job(n, at=n * 359.5, usage=Usage(prompt_tokens=1_000_003 + n, completion_tokens=7 * n, cached_tokens=n))
        for n in range(30)
    ]
    jobs[4] = replace(jobs[4], id="embd-4", model="org/embedder")
    jobs[8] = replace(jobs[8], id="img-8")
    jobs[5] = replace(jobs[5], service_class=ServiceClass.FLEX, user="")
    for number in (6, 7, 25):
        jobs[number] = with_parts(jobs[number])
    nothing = Usage(prompt_tokens=0)
    return [
        *jobs,
        job(90, at=5.0, usage=nothing, final=FinalUsage(nothing, Outcome.CANCELLED, SettlementSource.VOID, 5.0)),
        job(91, at=5.0, usage=Usage(prompt_tokens=5), state=JobState.SETTLING),
        job(92, at=5.0, usage=nothing, state=JobState.HELD, cost=None, final=None),
        job(93, at=5.0, usage=Usage(prompt_tokens=5), organisation="org-1"),
    ]


Report = Callable[[list[JobRecord]], Awaitable[UsageReports]]


@pytest.fixture(
    params=[
        "list",
        *(pytest.param(name, marks=pytest.mark.store) for name in ("mongodb", "two hours rolled up", "all added up")),
    ]
)
async def report(request: pytest.FixtureRequest) -> AsyncIterator[Report]:
    if request.param == "list":
        reports = ListUsageReports()

        async def into_list(jobs: list[JobRecord]) -> UsageReports:
            reports.records = jobs
            return reports

        yield into_list
        return
    connection = StoreConnection(request.getfixturevalue("database_url"), operation_ms=20_000)
    await create_indexes(connection)

    async def into_store(jobs: list[JobRecord]) -> UsageReports:
        store = MongoJobStore(connection)
        if request.param != "mongodb":
            jobs = [each for each in jobs if each.state is not JobState.SETTLING]  # they would delay the rollup
        await store.insert([replace(each, state=JobState.HELD) for each in jobs])
        charges = [Charge(each, each.cost, each.final) for each in jobs if each.final and each.cost is not None]
        await store.charge(charges)
        await store.finish([each.id for each in jobs if each.state is JobState.SETTLED])
        if request.param != "mongodb":
            await MongoOrganisationStore(connection).ensure_organisation(Organisation("org-0", "Org 0", created=0.0))
            hours = 2 if request.param == "two hours rolled up" else 4
            await UsageRollups(
                MongoRollupStore(connection), clock=lambda: hours * HOUR + SETTLEMENT_DELAY
            ).roll_up_all()
        return MongoUsageReports(connection)

    yield into_store
    connection.close()


async def test_rows_add_up_to_the_ledger(report: Report) -> None:
    jobs = settled()
    reports = await report(jobs)
    ledger = [settlement_entry(Charge(each, each.cost or 0, each.final)) for each in jobs[:30] if each.final]
    for by in ([], [Dimension.KEY], list(Dimension)):
        rows = await reports.rows(ALL, HOUR, by, 1_000)
        assert sum(row.cost for row in rows) == sum(entry.amount for entry in ledger)
        costs = [row.input_cost + row.cached_cost + row.output_cost + row.unit_cost for row in rows]
        assert costs == [row.cost for row in rows]
        assert sum(row.requests for row in rows) == len(ledger) == 30
        usages = [entry.usage for entry in ledger if entry.usage]
        usages += [part.usage for entry in ledger for part in entry.parts]
        assert sum(row.units for row in rows) == sum(sum(usage.units.values()) for usage in usages) == 3 * 8
        assert sum(row.input_tokens for row in rows) == sum(usage.prompt_tokens for usage in usages)
        assert sum(row.cached_tokens for row in rows) == sum(usage.cached_tokens for usage in usages)
        assert sum(row.output_tokens for row in rows) == sum(usage.completion_tokens for usage in usages)
    assert sum(entry.amount for entry in ledger) > 2**53  # no number on the way is a float


async def test_buckets_groups_and_filters(report: Report) -> None:
    reports = await report(settled())
    hours = await reports.rows(ALL, HOUR, [], 100)
    assert [(row.start, row.requests) for row in hours] == [(0, 11), (HOUR, 10), (2 * HOUR, 9)]
    by_project = await reports.rows(ALL, 24 * HOUR, [Dimension.PROJECT, Dimension.SERVICE_CLASS], 100)
    assert [(list(row.group.values()), row.requests) for row in by_project] == [
        (["proj_0", "default"], 15),
        (["proj_1", "default"], 14),
        (["proj_1", "flex"], 1),
    ]
    only = replace(ALL, ids={Dimension.KEY: ["key0", "key1"], Dimension.PROJECT: ["proj_1"]})
    assert [row.requests for row in await reports.rows(only, 24 * HOUR, [], 100)] == [10]
    part = replace(ALL, since=719, until=1079)  # the start counts, the end does not
    assert [row.requests for row in await reports.rows(part, HOUR, [], 100)] == [2]
    for kind, requests in ((UsageKind.EMBEDDINGS, [1]), (UsageKind.IMAGES, [1]), (UsageKind.COMPLETIONS, [28])):
        assert [row.requests for row in await reports.rows(replace(ALL, kind=kind), 24 * HOUR, [], 100)] == requests
    assert len(await reports.rows(ALL, HOUR, [Dimension.KEY], 4)) == 4
    assert await reports.rows(replace(ALL, ids={Dimension.MODEL: ["$where"]}), HOUR, [], 4) == []


async def test_jobs_are_listed_in_order_of_settlement(report: Report) -> None:
    jobs = settled()
    reports = await report(jobs)
    assert [each async for each in reports.jobs(ALL)] == jobs[:30]
    assert await asyncio.gather(reports.count(ALL, 100), reports.count(ALL, 7)) == [30, 7]


async def test_parts_count_under_their_own_models_and_not_as_requests(report: Report) -> None:
    reports = await report(settled())
    rows = await reports.rows(ALL, 24 * HOUR, [Dimension.MODEL], 100)
    counts = {row.group[Dimension.MODEL]: (row.requests, row.units, row.cost) for row in rows}
    assert counts["painter"] == (0, 9, 3 * (21 + 10**10 + 2))
    assert counts["tool.free"] == (0, 3, 0)
    assert counts["org/model"][:2] == (29, 12)
    only = replace(ALL, ids={Dimension.MODEL: ["painter"], Dimension.PROJECT: ["proj_1"]})
    assert [(row.input_tokens, row.units) for row in await reports.rows(only, HOUR, [], 100)] == [(7, 3), (7, 3)]
    assert [row.requests for row in await reports.rows(replace(only, until=HOUR), HOUR, [], 100)] == [0]
