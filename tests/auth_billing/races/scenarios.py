"""Actions of the concurrent processes in each race (docs/design/money.md#races).

A `name` is the id of an organisation and the prefix of its jobs' ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from auth_billing.errors import CreditError, HoldRefused
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import SettlementSource, UsageStatement
from auth_billing.money.credit import Credit
from auth_billing.money.holds import HoldRequest
from auth_billing.prices.price_book import PriceBook, PriceVersion
from auth_billing.store.credits import MongoCreditStore
from auth_billing.store.prices import MongoPriceStore
from auth_billing.store.usage import MongoUsageStore
from router.messages import Outcome, Usage
from router.usage_arithmetic import JobUsage
from tests.auth_billing.money.test_usage_records import record
from tests.auth_billing.races.process_pool import Race, Racer
from tests.auth_billing.workload import HELD, hold, hold_request, principal
from tests.fakes.billing_stores import flat_price

GATEWAY = "gateway-1"
LARGE = Usage(prompt_tokens=0, completion_tokens=16_000)
"""A usage whose hold is 160 times that of `MAX_USAGE`."""


def statement(tokens: int, outcome: Outcome = Outcome.FINISHED) -> UsageStatement:
    return UsageStatement(Usage(prompt_tokens=100, completion_tokens=tokens), outcome, SettlementSource.RECEIPT)


def cost(tokens: int) -> int:
    return 100 * 2 + tokens * 10


async def reserve(racer: Racer, names: Sequence[str]) -> list[bool]:
    """Hold one job of each organisation; return for each whether the hold was granted."""
    return list(await asyncio.gather(*(_reserved(racer.billing, name, f"{name}-{racer.number}") for name in names)))


async def _reserved(billing: Billing, organisation: str, *jobs: str) -> bool:
    try:
        await hold(billing, principal(organisation), [hold_request(job, gateway=GATEWAY) for job in jobs])
    except HoldRefused:
        return False
    return True


async def settle_or_void(racer: Racer, names: Sequence[str]) -> None:
    if racer.number % 2:
        await asyncio.gather(*(racer.billing.void([f"{name}-0"]) for name in names))
    else:
        await racer.settle({f"{name}-0": statement(8) for name in names})


async def settle_differently(racer: Racer, names: Sequence[str]) -> None:
    """Settle each job to two different usages, each twice, as redelivered receipts or after a cancellation."""
    claim = statement(8) if racer.number < 2 else statement(5, Outcome.CANCELLED)
    await racer.settle({f"{name}-0": claim for name in names})


async def sweep_a_live_gateway(racer: Racer, names: Sequence[str]) -> None:
    """Two sweepers take a gateway for dead while it sends a heartbeat and its receipts arrive."""
    jobs = [f"{name}-0" for name in names]
    if racer.number < 2:
        await _sweep(racer)
    elif racer.number == 2:
        for tokens in (2, 3):
            await racer.billing.checkpoint({job: JobUsage(statement(tokens).usage) for job in jobs})
            await racer.billing.record_heartbeat(GATEWAY)
    else:
        await racer.settle(dict.fromkeys(jobs, statement(8)))


async def disconnect_at_the_end(racer: Racer, names: Sequence[str]) -> None:
    """The client disconnects between the last token and the settlement: two receipts, a usage record and a sweep."""
    jobs = [f"{name}-0" for name in names]
    if racer.number == 0:
        await racer.settle(dict.fromkeys(jobs, statement(7, Outcome.CANCELLED)))
    elif racer.number == 1:
        await racer.settle(dict.fromkeys(jobs, statement(8)))
    elif racer.number == 2:
        await racer.billing.checkpoint({job: JobUsage(statement(8).usage) for job in jobs})
        reports = [record(job=job, usage=statement(8).usage) for job in jobs]
        await MongoUsageStore(racer.connection).add_new([msgspec.structs.replace(each) for each in reports])
    else:
        await _sweep(racer)


async def _sweep(racer: Racer) -> None:
    now = 0.0
    sweeper = racer.sweeper(lambda: now)
    for now in (0.0, 15.0, 30.0):  # noqa: B007 - the sweeper's clock
        await sweeper.sweep()


async def close_while_it_runs(racer: Racer, names: Sequence[str]) -> list[bool]:
    if racer.number == 0:
        return list(await asyncio.gather(*(racer.stores.balances.set_open(name, to=False) for name in names)))
    if racer.number == 1:
        return await reserve(racer, names)
    await settle_differently(racer, names)
    return []


async def create_an_organisation(racer: Racer, names: Sequence[str]) -> list[bool]:
    """Two processes hold a job for a new organisation while its payment is credited twice."""
    if racer.number < 2:
        return await reserve(racer, names)
    credit = Credit(MongoCreditStore(racer.connection), racer.stores.jobs)
    await asyncio.gather(*(credit.top_up(name, HELD, "payment-1") for name in names))
    return []


async def edit_prices(racer: Racer, names: Sequence[str]) -> list[bool]:
    store = MongoPriceStore(racer.connection)
    if racer.number >= 2:
        for _ in names[::4]:
            newest = await store.newest()
            version = newest.prices.version + 1 if newest is not None else 1
            await store.add(PriceVersion(flat_price(input=version, cached_input=0, output=3, version=version), 0.0))
        return []
    looks = iter(range(0, 10**9, 1_000))
    billing = Billing(racer.stores, PriceBook(store, monotonic=lambda: float(next(looks))))
    racer = replace(racer, billing=billing)
    return await reserve(racer, names)


async def first_price(racer: Racer, names: Sequence[str]) -> None:
    await MongoPriceStore(racer.connection).add(PriceVersion(flat_price(), 0.0))


async def refund_while_it_settles(racer: Racer, names: Sequence[str]) -> list[bool]:
    if racer.number < 2:
        await settle_differently(racer, names)
        return []
    credit = Credit(MongoCreditStore(racer.connection), racer.stores.jobs)
    amount = cost(5) - 100 * (racer.number - 2)

    async def refunded(name: str) -> bool:
        try:
            await credit.refund(name, f"{name}-0", amount, f"{name}-{racer.number}")
        except CreditError:
            return False
        return True

    return list(await asyncio.gather(*map(refunded, names)))


async def lease_and_spend(racer: Racer, names: Sequence[str]) -> list[list[str]]:
    """Each gateway leases credit, uses it, and holds two fifths of all credit at once; return the ids of held jobs."""

    async def spend(name: str) -> list[str]:
        requests = [hold_request(f"{name}-{racer.number}-{n}", gateway=f"gateway-{racer.number}") for n in range(4)]
        got = [await _held(racer.billing, name, each) for each in requests[:2]]
        requests.append(hold_request(f"{name}-{racer.number}-large", gateway=requests[0].gateway, max_usage=LARGE))
        return [*got, *await asyncio.gather(*(_held(racer.billing, name, each) for each in requests[2:]))]

    got = await asyncio.gather(*map(spend, names))
    await racer.billing.release_leases()
    return [[job for job in jobs if job] for jobs in got]


async def lease_while_it_is_closed(racer: Racer, names: Sequence[str]) -> list[list[str]]:
    """Two gateways use leases while the account is closed and a sweeper without heartbeats releases the leases."""
    if racer.number == 0:
        for name in names:
            await asyncio.sleep(racer.random.random() * 0.02)
            await racer.stores.balances.set_open(name, to=False)
        return [[] for _ in names]
    if racer.number == 1:
        await asyncio.sleep(racer.random.random() * 0.2)
        await _sweep(racer)
        return [[] for _ in names]

    async def use_lease(name: str) -> list[str]:
        requests = [hold_request(f"{name}-{racer.number}-{n}", gateway=f"gateway-{racer.number}") for n in range(5)]
        got = [await _held(racer.billing, name, each) for each in requests[:3]]
        return [*got, *await asyncio.gather(*(_held(racer.billing, name, each) for each in requests[3:]))]

    got = await asyncio.gather(*map(use_lease, names))
    await racer.billing.release_leases()
    return [[job for job in jobs if job] for jobs in got]


async def _held(billing: Billing, organisation: str, work: HoldRequest) -> str:
    """Return the job's id if its hold was granted, else ""."""
    try:
        await hold(billing, principal(organisation), [work])
    except HoldRefused:
        return ""
    return work.job


RESERVE = Race(reserve)
LEASE = Race(lease_and_spend)
LEASE_AND_CLOSE = Race(lease_while_it_is_closed)
SETTLE_OR_VOID = Race(settle_or_void, reserve)
SETTLE_DIFFERENTLY = Race(settle_differently, reserve)
SWEEP = Race(sweep_a_live_gateway, reserve)
DISCONNECT = Race(disconnect_at_the_end, reserve)
CLOSE = Race(close_while_it_runs, reserve)
CREATE = Race(create_an_organisation)
EDIT_PRICES = Race(edit_prices, first_price)
REFUND = Race(refund_while_it_settles, reserve)
