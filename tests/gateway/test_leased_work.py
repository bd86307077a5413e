"""The runner of leased work: a few pieces at a time, and broken work neither ends it nor is tried again at once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection

import pytest

from auth_billing.errors import StoreUnavailable
from gateway import leased_work
from gateway.leased_work import LeasedWorkRunner
from stored_objects.vector_stores.records import Chunking, VectorStoreFile
from tests.gateway.conftest import eventually


class Runner(LeasedWorkRunner[VectorStoreFile]):
    """Claims files by number from a list, and performs each by a function."""

    def __init__(
        self, count: int, perform: Callable[[int], Awaitable[None]], places: int, *, turn: float = math.inf
    ) -> None:
        self.arrived = asyncio.Event()
        super().__init__(self.arrived, places, turn)
        self.waiting = list(range(count))
        self.organisations: dict[int, str] = {}
        """Organisations of files; by default each file is of its own."""
        self.gave_way: list[int] = []
        self.begun: list[int] = []
        self.refusals = 0
        self.looks = 0
        self._work = perform

    def _look_again(self) -> None:
        self.looks += 1

    async def _claim(self, passed_over: Collection[str]) -> VectorStoreFile | None:
        if self.refusals:
            self.refusals -= 1
            raise StoreUnavailable
        for number in self.waiting:
            organisation = self.organisations.get(number, f"org-{number}")
            if organisation not in passed_over:
                self.waiting.remove(number)
                return VectorStoreFile("vs_1", str(number), organisation, "proj-1", number, Chunking(800, 400))
        return None

    def _give_way(self, work: VectorStoreFile) -> None:
        self.gave_way.append(int(work.file))

    async def _perform(self, work: VectorStoreFile) -> None:
        self.begun.append(int(work.file))
        await self._work(int(work.file))


async def test_a_free_place_is_taken_at_once_and_the_end_cancels_what_runs() -> None:
    gates = [asyncio.Event() for _ in range(4)]
    cancelled: list[int] = []

    async def perform(number: int) -> None:
        try:
            await gates[number].wait()
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    runner = Runner(4, perform, places=2)
    running = asyncio.create_task(runner.run())
    await eventually(lambda: runner.begun == [0, 1])
    gates[1].set()
    await eventually(lambda: runner.begun == [0, 1, 2])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert cancelled == [0, 2]


async def test_what_is_known_of_waiting_work_is_forgotten_when_new_work_arrives_not_when_a_place_is_free() -> None:
    gates = [asyncio.Event() for _ in range(4)]

    async def perform(number: int) -> None:
        await gates[number].wait()

    runner = Runner(2, perform, places=1)
    running = asyncio.create_task(runner.run())
    await eventually(lambda: runner.begun == [0])
    gates[0].set()
    await eventually(lambda: runner.begun == [0, 1])
    assert runner.looks == 0
    gates[1].set()
    runner.waiting = [2]
    runner.arrived.set()
    await eventually(lambda: runner.begun == [0, 1, 2])
    assert runner.looks == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_broken_work_keeps_its_place_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def perform(number: int) -> None:
        if number == 0:
            raise RuntimeError("broken")

    monkeypatch.setattr(leased_work, "RETRY_DELAY", 0.2)
    runner = Runner(2, perform, places=1)
    running = asyncio.create_task(runner.run())
    await eventually(lambda: runner.begun == [0])
    await asyncio.sleep(0)
    assert runner.waiting == [1]
    await eventually(lambda: runner.begun == [0, 1])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_store_that_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def perform(_: int) -> None:
        """End at once."""

    monkeypatch.setattr(leased_work, "CLAIM_INTERVAL", 0.05)
    runner = Runner(1, perform, places=1)
    runner.refusals = 2
    running = asyncio.create_task(runner.run())
    await eventually(lambda: runner.begun == [0])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_work_that_had_its_turn_gives_way_to_that_of_organisations_without_a_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two organisations fill all places; two others get one each, one after the other, and both before either again."""
    monkeypatch.setattr(leased_work, "CLAIM_INTERVAL", 0.01)
    gates = [asyncio.Event() for _ in range(8)]

    async def perform(number: int) -> None:
        await gates[number].wait()

    runner = Runner(8, perform, places=3, turn=0.05)
    runner.organisations = dict(zip(range(8), ("a", "b", "a", "a", "c", "c", "d", "b"), strict=True))
    runner.waiting = [0, 1, 2, 3, 7]
    running = asyncio.create_task(runner.run())
    await eventually(lambda: runner.begun == [0, 1, 2])
    await asyncio.sleep(0.1)
    assert (runner.begun, runner.gave_way) == ([0, 1, 2], []), "it gave way without another organisation"
    runner.waiting = [4, 5, 6]
    await eventually(lambda: runner.begun == [0, 1, 2, 4])
    assert runner.gave_way == [0], "not the longest of the organisation with the most places"
    await asyncio.sleep(0.1)
    assert runner.begun == [0, 1, 2, 4], "two gave way at once"
    gates[0].set()
    await eventually(lambda: runner.begun == [0, 1, 2, 4, 6])
    assert runner.gave_way == [0, 1]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_work_before_the_end_of_its_turn_does_not_give_way() -> None:
    async def perform(_: int) -> None:
        await asyncio.Event().wait()

    runner = Runner(2, perform, places=1, turn=60.0)
    running = asyncio.create_task(runner.run())
    await eventually(lambda: runner.begun == [0])
    runner.arrived.set()
    await asyncio.sleep(0.1)
    assert (runner.begun, runner.gave_way) == ([0], [])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
