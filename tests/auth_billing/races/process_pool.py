"""Processes that do the same thing at the same moment, again and again, each with a connection of its own."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from threading import Barrier
from typing import Any

from prometheus_client import CollectorRegistry

from auth_billing.errors import StoreUnavailable
from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import BillingStores, UsageStatement
from auth_billing.money.settler import Settler
from auth_billing.prices.price_book import PriceBook
from auth_billing.store.billing_stores import mongo_billing_stores
from auth_billing.store.connection import StoreConnection
from tests.fakes.billing_stores import price_book

PROCESSES = 4
PATIENCE = 120.0
OPERATION_MS = 60_000
"""A busy machine is no race: nobody gives up."""


@dataclass
class Racer:
    """One of the processes."""

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

    async def settle(self, words: dict[str, UsageStatement]) -> None:
        """Settle in another order than everybody else, some together, some alone, all at once."""
        jobs = list(words)
        self.random.shuffle(jobs)
        parts = []
        while jobs:
            size = self.random.choice((1, 3, 9))
            parts.append(jobs[:size])
            jobs = jobs[size:]
        await asyncio.gather(*(self._settle({job: words[job] for job in part}) for part in parts))

    async def _settle(self, words: dict[str, UsageStatement]) -> None:
        while True:
            try:
                await self.settler.settle(words)
            except StoreUnavailable:
                continue  # as the consumer of receipts does
            return


Act = Callable[[Racer, Sequence[str]], Awaitable[Any]]


@dataclass(frozen=True)
class Race:
    """`prepare` is done by one process, then `act` by all at the same moment; once for each round's names."""

    act: Act
    prepare: Act | None = None


def context() -> BaseContext:
    """Processes that begin quickly: forked from one that has imported everything and done nothing."""
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(["tests.auth_billing.races.scenarios", "tests.auth_billing.races.crash"])
    return forkserver


class ProcessPool:
    """`PROCESSES` processes, kept for several races."""

    def __init__(self) -> None:
        forkserver = context()
        self._barrier = barrier = forkserver.Barrier(PROCESSES)  # it lives as long as somebody here knows it
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
        """What each process has to say of each round."""
        self._barrier.reset()
        for pipe in self._pipes:
            pipe.send((race, url, rounds))
        said = []
        for pipe in self._pipes:
            if not pipe.poll(PATIENCE + len(rounds) * 30):
                raise TimeoutError("a race does not end")
            outcome = pipe.recv()
            if isinstance(outcome, str):
                raise AssertionError(outcome)
            said.append(outcome)
        return said

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
            process.join(PATIENCE)


def _serve(pipe: Connection, barrier: Barrier, number: int) -> None:
    while True:
        race, url, rounds = pipe.recv()
        try:
            outcome: object = asyncio.run(_run(race, url, rounds, barrier, number))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test is told
            barrier.abort()
            outcome = f"process {number}: {error!r}"
        pipe.send(outcome)


async def _run(race: Race, url: str, rounds: Sequence[Sequence[str]], barrier: Barrier, number: int) -> list[Any]:
    connection = StoreConnection(url, operation_ms=OPERATION_MS)
    racer = Racer.on(connection, number)
    await connection.ping()
    said = []
    try:
        for names in rounds:
            if race.prepare is not None and number == 0:
                await race.prepare(racer, names)
            barrier.wait(PATIENCE)
            said.append(await race.act(racer, names))
            barrier.wait(PATIENCE)
    finally:
        connection.close()
    return said
