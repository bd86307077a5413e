"""Files that wait for an import are claimed in order, from few looks into the store."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from gateway.vector_stores.waiting_files import LOOK, LOOK_TIME, WaitingFiles
from stored_objects.vector_stores.imports import VectorStoreImports
from stored_objects.vector_stores.records import Chunking, VectorStoreFile
from tests.fakes.stored_objects import stored_objects
from tests.fakes.vector_stores import vector_stores

ALL: frozenset[str] = frozenset()


class CountedImports(VectorStoreImports):
    """Imports that count the looks for files."""

    looks = 0

    async def waiting(self, limit: int, passed_over: Collection[str] = ()) -> list[VectorStoreFile]:
        self.looks += 1
        return await super().waiting(limit, passed_over)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def imports() -> CountedImports:
    return CountedImports(vector_stores(stored_objects()))


async def add(imports: VectorStoreImports, first: int, count: int, organisation: str = "a") -> None:
    numbers = range(first, first + count)
    files = [VectorStoreFile("vs", f"{each:03}", organisation, "proj", each, Chunking(800, 400)) for each in numbers]
    await imports.stores.records.add_files(files)


async def claimed(waiting: WaitingFiles, passed_over: frozenset[str] = ALL) -> list[int]:
    found = []
    while (file := await waiting.claim(passed_over)) is not None:
        found.append(int(file.file))
    return found


async def test_all_files_are_claimed_in_order_by_a_look_for_many(imports: CountedImports) -> None:
    await add(imports, 0, 2 * LOOK + 5)
    assert await claimed(WaitingFiles(imports, "gateway-1")) == list(range(2 * LOOK + 5))
    assert imports.looks == 3


async def test_new_files_are_found_when_they_are_announced_or_after_a_time(imports: CountedImports) -> None:
    clock = Clock()
    waiting = WaitingFiles(imports, "gateway-1", monotonic=clock)
    assert await claimed(waiting) == []
    await add(imports, 0, 2)
    assert await claimed(waiting) == []
    waiting.forget()
    assert await claimed(waiting) == [0, 1]
    await add(imports, 2, 2)
    clock.now += LOOK_TIME
    assert await claimed(waiting) == [2, 3]


async def test_files_that_another_gateway_has_claimed_since_the_look_are_passed_over(imports: CountedImports) -> None:
    await add(imports, 0, 4)
    one, other = WaitingFiles(imports, "gateway-1"), WaitingFiles(imports, "gateway-2")
    for number in (0, 1):
        file = await one.claim(ALL)
        assert file is not None
        assert (file.file, file.runner, file.claims) == (f"{number:03}", "gateway-1", 1)
    second = await other.claim(ALL)
    assert second is not None
    assert second.file == "002"
    assert await claimed(one) == [3]
    assert await claimed(other) == []


async def test_organisations_that_are_passed_over_wait(imports: CountedImports) -> None:
    await add(imports, 0, 2)
    await add(imports, 10, 2, "b")
    waiting = WaitingFiles(imports, "gateway-1")
    assert await claimed(waiting, frozenset({"a"})) == [10, 11]
    assert await claimed(waiting, frozenset({"a", "b"})) == []
    assert await claimed(waiting) == [0, 1]
