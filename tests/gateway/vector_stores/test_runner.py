"""Places of a gateway for imports: organisations take turns, and none has all places."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.vector_stores import runner
from gateway.vector_stores.runner import MAX_IMPORTS, ImportRunner
from stored_objects.vector_stores.imports import VectorStoreImports
from stored_objects.vector_stores.records import Chunking, VectorStoreFile
from tests.fakes.stored_objects import stored_objects
from tests.fakes.vector_stores import vector_stores
from tests.gateway.conftest import eventually

MOST_OF_ONE, SHARE = MAX_IMPORTS - 1, MAX_IMPORTS // 2
"""Most imports of one organisation, if it is alone, and while others wait."""


class Imports:
    """Imports that last until they are ended."""

    def __init__(self) -> None:
        self.running: list[tuple[VectorStoreFile, asyncio.Event]] = []
        self.begun: list[str] = []
        """Organisations of all imports, in the order in which they began."""

    def begin(self, _: Any, file: VectorStoreFile) -> Any:
        async def run() -> None:
            self.begun.append(file.organisation)
            entry = (file, asyncio.Event())
            self.running.append(entry)
            await entry[1].wait()
            self.running.remove(entry)

        return SimpleNamespace(run=run)

    def end(self, organisation: str) -> None:
        next(ended for file, ended in self.running if file.organisation == organisation).set()

    def have_begun(self, count: int) -> bool:
        return len(self.begun) >= count

    def have_places(self, places: dict[str, int]) -> bool:
        return self.places == places

    @property
    def places(self) -> Counter[str]:
        return Counter(file.organisation for file, _ in self.running)


def file(organisation: str, number: int) -> VectorStoreFile:
    return VectorStoreFile(f"vs_{organisation}", f"file-{number}", organisation, "proj", number, Chunking(800, 400))


@pytest.fixture
async def add(monkeypatch: pytest.MonkeyPatch, imports: Imports) -> Any:
    stores = vector_stores(stored_objects())
    gateway = SimpleNamespace(imports=VectorStoreImports(stores), files_attached=asyncio.Event())
    monkeypatch.setattr(runner, "FileImport", imports.begin)
    running = asyncio.create_task(ImportRunner(SimpleNamespace(gateway=gateway, runner="gateway-1")).run())  # type: ignore[arg-type]

    async def add(organisation: str, count: int) -> None:
        await stores.records.add_files([file(organisation, number) for number in range(count)])
        gateway.files_attached.set()

    yield add
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def imports() -> Imports:
    return Imports()


Add = Callable[[str, int], Any]


async def test_an_organisation_alone_leaves_a_place_for_another(imports: Imports, add: Add) -> None:
    await add("a", 20)
    await eventually(lambda: imports.places == {"a": MOST_OF_ONE})
    await add("b", 20)
    await eventually(lambda: imports.places == {"a": MOST_OF_ONE, "b": MAX_IMPORTS - MOST_OF_ONE})
    for left in range(MOST_OF_ONE - 1, SHARE - 1, -1):
        imports.end("a")
        await eventually(partial(imports.have_places, {"a": left, "b": MAX_IMPORTS - left}))


async def test_organisations_take_turns_whatever_came_first(imports: Imports, add: Add) -> None:
    names = ["a", "b", "c", "d", "e", "f"]
    for name in names:
        await add(name, 5)
    await eventually(lambda: len(imports.running) == MAX_IMPORTS)
    while len(imports.begun) < 2 * len(names):
        awaited = len(imports.begun) + 1
        imports.end(imports.running[0][0].organisation)
        await eventually(partial(imports.have_begun, awaited))
    assert max(Counter(imports.begun).values()) <= 2 + MOST_OF_ONE
    assert set(imports.begun) == set(names)
