"""Child processes that exit right after their n-th store write (docs/design/reliability-contract.md#F31)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, cast

from prometheus_client import CollectorRegistry

from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import BillingStores, UsageStatement
from auth_billing.money.settler import Settler
from auth_billing.store.billing_stores import mongo_billing_stores
from auth_billing.store.connection import StoreConnection
from tests.auth_billing.races.process_pool import OPERATION_MS
from tests.auth_billing.workload import hold, hold_request, principal
from tests.fakes.billing_stores import price_book

DIED = 9
_WRITES = frozenset(
    {
        "create",
        "hold",
        "restore_hold",
        "extend_lease",
        "hold_from_leases",
        "settle",
        "release",
        "insert",
        "remove",
        "charge",
        "finish",
        "post",
    }
)


class _Dying:
    """A store that ends the process after `writes` writes of all wrapped stores."""

    def __init__(self, store: Any, done: list[int], writes: int) -> None:
        self._store, self._done, self._writes = store, done, writes

    def __getattr__(self, name: str) -> Any:
        method: Callable[..., Awaitable[Any]] = getattr(self._store, name)
        if name not in _WRITES:
            return method

        async def write(*arguments: Any) -> Any:
            result = await method(*arguments)
            self._done.append(1)
            if len(self._done) == self._writes:
                os._exit(DIED)
            return result

        return write


def settle_and_die(url: str, statements: dict[str, UsageStatement], writes: int) -> None:
    async def settle(stores: BillingStores) -> None:
        await Settler(stores, BillingMetrics(CollectorRegistry())).settle(statements)

    asyncio.run(_with_stores(url, writes, settle))


def reserve_and_die(url: str, organisation: str, jobs: list[str], writes: int) -> None:
    async def reserve(stores: BillingStores) -> None:
        await hold(Billing(stores, price_book()), principal(organisation), [hold_request(job) for job in jobs])

    asyncio.run(_with_stores(url, writes, reserve))


def lease_and_die(url: str, organisation: str, jobs: list[str], writes: int) -> None:
    async def lease(stores: BillingStores) -> None:
        billing = Billing(stores, price_book(), monotonic=lambda: 0.0)
        for job in jobs:
            await hold(billing, principal(organisation), [hold_request(job)])
        await billing.release_leases()

    asyncio.run(_with_stores(url, writes, lease))


async def _with_stores(url: str, writes: int, action: Callable[[BillingStores], Awaitable[Any]]) -> None:
    connection = StoreConnection(url, operation_ms=OPERATION_MS)
    done: list[int] = []
    stores = mongo_billing_stores(connection)
    balances, jobs, ledger = (
        cast(Any, _Dying(store, done, writes)) for store in (stores.balances, stores.jobs, stores.ledger)
    )
    await action(BillingStores(balances, jobs, ledger, stores.heartbeats, stores.answers))
    connection.close()
