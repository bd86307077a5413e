"""What the processes of each race do
(docs/design/money.md#races). A name is an organisation's, and the beginning of its jobs'."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import msgspec
from prometheus_client import CollectorRegistry

from auth_billing.errors import CreditError, HoldRefused
from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import SettlementSource, UsageStatement
from auth_billing.money.credit import Credit
from auth_billing.money.holds import HoldRequest
from auth_billing.money.sweeper import Sweeper
from auth_billing.prices.price_book import PriceBook, PriceVersion
from auth_billing.store.credits import MongoCreditStore
from auth_billing.store.prices import MongoPriceStore
from auth_billing.store.usage import MongoUsageStore
from router.messages import Outcome, Usage
from tests.auth_billing.money.test_settlement import record
from tests.auth_billing.races.process_pool import Race, Racer
from tests.auth_billing.workload import HELD, hold, principal, work
from tests.fakes.billing_stores import flat_price

GATEWAY = "gateway-1"
LARGE = Usage(prompt_tokens=0, completion_tokens=16_000)
"""Holds 160 times what others do."""


def word(tokens: int, outcome: Outcome = Outcome.FINISHED) -> UsageStatement:
    return UsageStatement(Usage(prompt_tokens=100, completion_tokens=tokens), outcome, SettlementSource.RECEIPT)


def cost(tokens: int) -> int:
    return 100 * 2 + tokens * 10


async def reserve(racer: Racer, names: Sequence[str]) -> list[bool]:
    """Hold one job of each organisation; of which it was possible."""
    return list(await asyncio.gather(*(_reserved(racer.billing, name, f"{name}-{racer.number}") for name in names)))


async def _reserved(billing: Billing, organisation: str, *jobs: str) -> bool:
    try:
        await hold(billing, principal(organisation), [work(job, gateway=GATEWAY) for job in jobs])
    except HoldRefused:
        return False
    return True


async def settle_or_void(racer: Racer, names: Sequence[str]) -> None:
    if racer.number % 2:
        await asyncio.gather(*(racer.billing.void([f"{name}-0"]) for name in names))
    else:
        await racer.settle({f"{name}-0": word(8) for name in names})


async def settle_differently(racer: Racer, names: Sequence[str]) -> None:
    """Two words on each job, each of them twice: as redelivered, or from a gateway that was told to cancel."""
    said = word(8) if racer.number < 2 else word(5, Outcome.CANCELLED)
    await racer.settle({f"{name}-0": said for name in names})


async def sweep_a_live_gateway(racer: Racer, names: Sequence[str]) -> None:
    """Two sweepers take the gateway for dead just when it is heard of again, and its receipts come."""
    jobs = [f"{name}-0" for name in names]
    if racer.number < 2:
        await _sweep(racer)
    elif racer.number == 2:
        for tokens in (2, 3):
            await racer.billing.checkpoint({job: word(tokens).usage for job in jobs})
            await racer.billing.record_heartbeat(GATEWAY)
    else:
        await racer.settle(dict.fromkeys(jobs, word(8)))


async def disconnect_at_the_end(racer: Racer, names: Sequence[str]) -> None:
    """The client leaves between the last token and the settlement: both ends of it are told, and the worker's word."""
    jobs = [f"{name}-0" for name in names]
    if racer.number == 0:
        await racer.settle(dict.fromkeys(jobs, word(7, Outcome.CANCELLED)))
    elif racer.number == 1:
        await racer.settle(dict.fromkeys(jobs, word(8)))
    elif racer.number == 2:
        await racer.billing.checkpoint({job: word(8).usage for job in jobs})
        reports = [record(job=job, usage=word(8).usage) for job in jobs]
        await MongoUsageStore(racer.connection).add_new([msgspec.structs.replace(each) for each in reports])
    else:
        await _sweep(racer)


async def _sweep(racer: Racer) -> None:
    now = 0.0
    sweeper = Sweeper(
        racer.stores,
        MongoUsageStore(racer.connection),
        racer.settler,
        BillingMetrics(CollectorRegistry()),
        flowing=lambda: True,
        monotonic=lambda: now,
    )
    for now in (0.0, 15.0, 30.0):  # noqa: B007 - the sweeper's clock
        await sweeper.sweep()


async def close_while_it_runs(racer: Racer, names: Sequence[str]) -> list[bool]:
    if racer.number == 0:
        return list(await asyncio.gather(*(racer.stores.balances.set_open(name, to=False) for name in names)))
    if racer.number == 1:
        return await reserve(racer, names)
    await settle_differently(racer, names)
    return []


async def begin_a_tenant(racer: Racer, names: Sequence[str]) -> list[bool]:
    """Two want to run a job for somebody who is new, while his payment is told twice."""
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
    """Each gateway leases some credit, goes on with it, and wants two fifths of all at once; what each has got."""

    async def spend(name: str) -> list[str]:
        works = [work(f"{name}-{racer.number}-{n}", gateway=f"gateway-{racer.number}") for n in range(4)]
        got = [await _held(racer.billing, name, each) for each in works[:2]]
        works.append(work(f"{name}-{racer.number}-large", gateway=works[0].gateway, most=LARGE))
        return [*got, *await asyncio.gather(*(_held(racer.billing, name, each) for each in works[2:]))]

    got = await asyncio.gather(*map(spend, names))
    await racer.billing.release_leases()
    return [[job for job in jobs if job] for jobs in got]


async def lease_from_what_is_closed(racer: Racer, names: Sequence[str]) -> list[list[str]]:
    """Two gateways go on while the account is closed and a sweeper, who never hears of them, takes all back."""
    if racer.number == 0:
        for name in names:
            await asyncio.sleep(racer.random.random() * 0.02)
            await racer.stores.balances.set_open(name, to=False)
        return [[] for _ in names]
    if racer.number == 1:
        await asyncio.sleep(racer.random.random() * 0.2)
        await _sweep(racer)
        return [[] for _ in names]

    async def go_on(name: str) -> list[str]:
        works = [work(f"{name}-{racer.number}-{n}", gateway=f"gateway-{racer.number}") for n in range(5)]
        got = [await _held(racer.billing, name, each) for each in works[:3]]
        return [*got, *await asyncio.gather(*(_held(racer.billing, name, each) for each in works[3:]))]

    got = await asyncio.gather(*map(go_on, names))
    await racer.billing.release_leases()
    return [[job for job in jobs if job] for jobs in got]


async def _held(billing: Billing, organisation: str, work: HoldRequest) -> str:
    """The job, if it got its hold."""
    try:
        await hold(billing, principal(organisation), [work])
    except HoldRefused:
        return ""
    return work.job


RESERVE = Race(reserve)
LEASE = Race(lease_and_spend)
LEASE_AND_CLOSE = Race(lease_from_what_is_closed)
SETTLE_OR_VOID = Race(settle_or_void, reserve)
SETTLE_DIFFERENTLY = Race(settle_differently, reserve)
SWEEP = Race(sweep_a_live_gateway, reserve)
DISCONNECT = Race(disconnect_at_the_end, reserve)
CLOSE = Race(close_while_it_runs, reserve)
BEGIN = Race(begin_a_tenant)
EDIT_PRICES = Race(edit_prices, first_price)
REFUND = Race(refund_while_it_settles, reserve)
