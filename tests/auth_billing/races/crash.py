"""A process that dies, without a word, after its n-th write (docs/design/reliability-contract.md#F31)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from prometheus_client import CollectorRegistry

from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing import Billing
from auth_billing.money.books import Books, Word
from auth_billing.money.settler import Settler
from auth_billing.store.books import mongo_books
from auth_billing.store.connection import StoreConnection
from tests.auth_billing.races.crowd import OPERATION_MS
from tests.auth_billing.workload import hold, principal, work
from tests.fakes.books import price_book

DIED = 9
_WRITES = frozenset(
    {
        "open",
        "hold",
        "hold_again",
        "lease",
        "hand_over",
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
    """A store whose process dies when `writes` have been done."""

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


def settle_and_die(url: str, words: dict[str, Word], writes: int) -> None:
    async def settle(books: Books) -> None:
        await Settler(books, BillingMetrics(CollectorRegistry())).settle(words)

    asyncio.run(_with_books(url, writes, settle))


def reserve_and_die(url: str, organisation: str, jobs: list[str], writes: int) -> None:
    async def reserve(books: Books) -> None:
        await hold(Billing(books, price_book()), principal(organisation), [work(job) for job in jobs])

    asyncio.run(_with_books(url, writes, reserve))


def lease_and_die(url: str, organisation: str, jobs: list[str], writes: int) -> None:
    async def lease(books: Books) -> None:
        billing = Billing(books, price_book(), monotonic=lambda: 0.0)
        for job in jobs:
            await hold(billing, principal(organisation), [work(job)])
        await billing.give_back_leases()

    asyncio.run(_with_books(url, writes, lease))


async def _with_books(url: str, writes: int, act: Callable[[Books], Awaitable[Any]]) -> None:
    connection = StoreConnection(url, operation_ms=OPERATION_MS)
    done: list[int] = []
    books = mongo_books(connection)
    stores = (books.balances, books.jobs, books.ledger)
    await act(Books(*(_Dying(store, done, writes) for store in stores), books.leases))
    connection.close()
