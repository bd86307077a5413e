"""A pool of processes that run the same action at the same moment, each with its own store connection."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from threading import Barrier
from typing import Any

from prometheus_client import CollectorRegistry

from auth_billing.errors import StoreUnavailable
from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import BillingStores, UsageStatement
from auth_billing.money.settler import Settler
from auth_billing.money.sweeper import Sweeper
from auth_billing.prices.price_book import PriceBook
from auth_billing.store.billing_stores import mongo_billing_stores
from auth_billing.store.connection import StoreConnection
from auth_billing.store.usage import MongoUsageStore
from tests.fakes.billing_stores import price_book

PROCESSES = 4
TIMEOUT = 120.0
OPERATION_MS = 60_000
"""Milliseconds, long enough that no operation times out on a busy machine."""


@dataclass
class Racer:
    """One process of a race: its number, stores, settler and gateway billing."""

    number: int
    connection: StoreConnection
    stores: BillingStores
    settler: Settler
    billing: Billing
    random: random.Random

    @classmethod
    def on(cls, connection: StoreConnection, number: int = 0, prices: PriceBook | None = None) -> Racer:
        stores = mongo_billing_stores(connection)
        settler = Settler(stores, BillingMetrics(CollectorRegistry()))
        return cls(
            number,
            connection,
            stores,
            settler,
            Billing(stores, prices or price_book()),
            random.Random(f"racer {number}"),
        )

    async def settle(self, statements: dict[str, UsageStatement]) -> None:
        """Settle concurrently, in batches of different sizes and in an order that differs from the other processes'."""
        jobs = list(statements)
        self.random.shuffle(jobs)
        parts = []
        while jobs:
            size = self.random.choice((1, 3, 9))
            parts.append(jobs[:size])
            jobs = jobs[size:]
        await asyncio.gather(*(self._settle({job: statements[job] for job in part}) for part in parts))

    def sweeper(self, monotonic: Callable[[], float], clock: Callable[[], float] = time.time) -> Sweeper:
        """Return a sweeper with these clocks, for which settlements flow."""
        return Sweeper(
            self.stores,
            MongoUsageStore(self.connection),
            self.settler,
            BillingMetrics(CollectorRegistry()),
            flowing=lambda: True,
            clock=clock,
            monotonic=monotonic,
        )

    async def _settle(self, statements: dict[str, UsageStatement]) -> None:
        while True:
            try:
                await self.settler.settle(statements)
            except StoreUnavailable:
                continue  # as the consumer of receipts does
            return


Action = Callable[[Racer, Sequence[str]], Awaitable[Any]]


@dataclass(frozen=True)
class Race:
    """A `prepare` step of one process, then an `action` of all at the same moment, for the names of each round."""

    action: Action
    prepare: Action | None = None


def context() -> ForkServerContext:
    """Return a fork server that has the scenarios imported, so that processes start quickly."""
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(["tests.auth_billing.races.scenarios", "tests.auth_billing.races.crash"])
    return forkserver


class ProcessPool:
    """`PROCESSES` processes that are reused for several races."""

    def __init__(self) -> None:
        forkserver = context()
        self._barrier = barrier = forkserver.Barrier(PROCESSES)  # the processes need it to stay referenced here
        self._pipes: list[Connection] = []
        self._processes = []
        for number in range(PROCESSES):
            ours, theirs = forkserver.Pipe()
            process = forkserver.Process(target=_serve, args=(theirs, barrier, number), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def run(self, race: Race, url: str, rounds: Sequence[Sequence[str]]) -> list[list[Any]]:
        """Run a race; return the results of each process, one per round."""
        self._barrier.reset()
        for pipe in self._pipes:
            pipe.send((race, url, rounds))
        outcomes = []
        for pipe in self._pipes:
            if not pipe.poll(TIMEOUT + len(rounds) * 30):
                raise TimeoutError("a race does not end")
            outcome = pipe.recv()
            if isinstance(outcome, str):
                raise AssertionError(outcome)
            outcomes.append(outcome)
        return outcomes

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
            process.join(TIMEOUT)


def _serve(pipe: Connection, barrier: Barrier, number: int) -> None:
    while True:
        race, url, rounds = pipe.recv()
        try:
            outcome: object = asyncio.run(_run(race, url, rounds, barrier, number))
        except BaseException as error:  # noqa: BLE001 - reported to the test
            barrier.abort()
            outcome = f"process {number}: {error!r}"
        pipe.send(outcome)


async def _run(race: Race, url: str, rounds: Sequence[Sequence[str]], barrier: Barrier, number: int) -> list[Any]:
    connection = StoreConnection(url, operation_ms=OPERATION_MS)
    racer = Racer.on(connection, number)
    await connection.ping()
    outcomes = []
    try:
        for names in rounds:
            if race.prepare is not None and number == 0:
                await race.prepare(racer, names)
            barrier.wait(TIMEOUT)
            outcomes.append(await race.action(racer, names))
            barrier.wait(TIMEOUT)
    finally:
        connection.close()
    return outcomes
