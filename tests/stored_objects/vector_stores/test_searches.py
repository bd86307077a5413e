"""Searches in vector stores: indexes follow the store, rights stay apart, deletions take effect, losses are mended."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from auth_billing.errors import StoreUnavailable
from documents.content import Passage
from documents.search.filters import Comparison
from documents.search.index import Hit, IndexChanges, Question, SearchQuery
from documents.search.local_index import DATABASE, LocalIndex
from documents.search.vectors import pack_vectors
from stored_objects.errors import DocumentNotFound
from stored_objects.project_documents.project_documents import DAY
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.vector_stores import index_update
from stored_objects.vector_stores.access import Reader
from stored_objects.vector_stores.index_update import BLOCKS_AT_ONCE, update_index
from stored_objects.vector_stores.passages import PassageBlock, counted_size
from stored_objects.vector_stores.records import VectorStore
from stored_objects.vector_stores.searches import SEARCH_THREADS, IndexNotReady, VectorStoreSearches
from stored_objects.vector_stores.sweeper import TOMBSTONE_TIME
from tests.stored_objects.vector_stores.conftest import ADA, BOB, EVE, RUNNER, Platform, new_file, set_id

QUERY = SearchQuery([Question("kaucja", [1, 0])])


class SlowIndex(LocalIndex):
    """An index whose changes wait for an event."""

    def __init__(self, folder: Path, wait: Callable[[], None]) -> None:
        super().__init__(folder)
        self._wait = wait

    def apply(self, changes: IndexChanges) -> None:
        self._wait()
        super().apply(changes)


@pytest.fixture
async def searches(platform: Platform, tmp_path: Path) -> AsyncIterator[VectorStoreSearches]:
    made = VectorStoreSearches(platform.stores, tmp_path, LocalIndex)
    yield made
    await made.close()


async def import_texts(platform: Platform, texts: Sequence[str]) -> None:
    """Import the oldest file in progress with a passage for each text, two in a block."""
    file = await platform.claim()
    passages = [Passage(text, None, (), 0, len(text), 3) for text in texts]
    found = await platform.imports.begin(file, set_id(file, repr(texts)), counted_size(passages, 2))
    if not found.is_ready:
        blocks = [passages[start : start + 2] for start in range(0, len(passages), 2)]
        for number, block in enumerate(blocks):
            vectors = pack_vectors([[1, 0]] * len(block))
            await platform.imports.add(found, PassageBlock(found.id, number, block, vectors))
        await platform.imports.finish(file, found, len(blocks))
    await platform.imports.complete(file)


async def search(
    platform: Platform, searches: VectorStoreSearches, store: VectorStore, query: SearchQuery = QUERY, **options: Any
) -> list[str]:
    """Search as a request does: with the vector store as it is now. Return the texts in order."""
    found = await platform.stores.find(Reader(store.owner), store.id)
    hits: list[Hit] = await searches.search(found, replace(query, **options))
    return [each.passage.text for each in hits]


async def test_each_change_is_in_the_next_search(platform: Platform, searches: VectorStoreSearches) -> None:
    store = await platform.create(ADA, "file-1")
    assert await search(platform, searches, store) == []
    await import_texts(platform, ["Kaucja wynosi sto złotych.", "Czynsz"])
    assert await search(platform, searches, store) == ["Kaucja wynosi sto złotych.", "Czynsz"]
    await platform.stores.add(store, [new_file("file-2")])
    await import_texts(platform, ["O kaucji", "Dwa", "Trzy", "Cztery", "Pięć"])
    assert len(await search(platform, searches, store)) == 7
    since = Comparison("year", "gt", 2026)
    assert await search(platform, searches, store, filter=since) == []
    await platform.stores.set_attributes(store, "file-1", {"year": 2027.0})
    assert await search(platform, searches, store, filter=since) == ["Kaucja wynosi sto złotych.", "Czynsz"]
    await platform.delete_file(store, "file-1")
    assert len(await search(platform, searches, store)) == 5
    await platform.stores.add(store, [new_file("file-1")])
    await import_texts(platform, ["Wrócił"])
    assert "Wrócił" in await search(platform, searches, store)


async def test_an_expired_file_is_not_found_before_it_is_deleted(platform: Platform, tmp_path: Path) -> None:
    searches = VectorStoreSearches(platform.stores, tmp_path, partial(LocalIndex, clock=platform.clock))
    store = await platform.create(ADA, "file-1")
    await import_texts(platform, ["Kaucja"])
    await platform.stores.add(store, [replace(new_file("file-2"), expires=platform.clock.now + 60)])
    await import_texts(platform, ["Czynsz"])
    assert sorted(await search(platform, searches, store)) == ["Czynsz", "Kaucja"]
    platform.clock.now += 60
    assert await search(platform, searches, store) == ["Kaucja"]
    assert await search(platform, searches, store, filter=Comparison("year", "eq", 2026)) == ["Kaucja"]
    assert (await platform.stores.counts([store]))[store.id].completed == 2
    await searches.close()


async def test_a_change_without_a_number_is_in_the_next_search_too(
    platform: Platform, searches: VectorStoreSearches
) -> None:
    store = await platform.create(ADA, "file-1")
    await import_texts(platform, ["Kaucja"])
    assert await search(platform, searches, store) == ["Kaucja"]
    await platform.records.delete_file(await platform.stores.find_file(store, "file-1"), platform.clock())
    for _ in range(2):
        assert await search(platform, searches, store) == []


async def test_vector_stores_with_the_same_content_are_searched_apart(
    platform: Platform, searches: VectorStoreSearches
) -> None:
    mine, others = await platform.create(ADA, "file-1"), await platform.create(BOB, "file-2")
    await import_texts(platform, ["Kaucja"])
    assert (await search(platform, searches, mine), await search(platform, searches, others)) == (["Kaucja"], [])
    await import_texts(platform, ["Kaucja"])
    assert len(platform.passages.sets) == 1
    await platform.delete_file(mine, "file-1")
    assert (await search(platform, searches, mine), await search(platform, searches, others)) == ([], ["Kaucja"])


async def test_a_deletion_leaves_nothing_in_the_local_files(
    platform: Platform, searches: VectorStoreSearches, tmp_path: Path
) -> None:
    def remains() -> list[Path]:
        return [each for each in tmp_path.rglob("*") if each.is_file() and b"mandragor" in each.read_bytes()]

    store = await platform.create(ADA, "file-1", "file-2")
    platform.clock.now += 1
    other = await platform.create(ADA, "file-1")
    for text in ("Mandragora", "Czynsz", "Mandragora"):
        await import_texts(platform, [text])
    for each in (store, other):
        await search(platform, searches, each)
    assert {each.parent.name for each in remains()} == {store.id, other.id}
    await platform.delete_file(store, "file-1")
    await platform.stores.delete(other)
    await searches.refresh()  # as each process does within the minute, whether anything is searched or not
    assert remains() == []
    assert not (tmp_path / "0" / other.id).exists()
    assert await search(platform, searches, store, QUERY) == ["Czynsz"]


async def test_a_deleted_vector_store_is_not_searched(platform: Platform, searches: VectorStoreSearches) -> None:
    store = await platform.create(ADA, "file-1")
    await import_texts(platform, ["Kaucja"])
    await platform.stores.delete(store)
    platform.clock.now += DAY
    with pytest.raises(DocumentNotFound):
        await searches.search(store, QUERY)


async def test_an_index_is_built_again_from_the_store_after_its_loss(platform: Platform, tmp_path: Path) -> None:
    searches = VectorStoreSearches(platform.stores, tmp_path, LocalIndex)
    store = await platform.create(ADA, "file-1")
    await import_texts(platform, ["Kaucja", "Czynsz", "Najem"])
    before = await search(platform, searches, store)
    await searches.close()
    shutil.rmtree(tmp_path / "0" / store.id)
    again = VectorStoreSearches(platform.stores, tmp_path, LocalIndex)
    assert await search(platform, again, store) == before
    await again.close()


async def test_an_index_that_is_damaged_while_it_is_used_is_built_again(
    platform: Platform, searches: VectorStoreSearches, tmp_path: Path
) -> None:
    store = await platform.create(ADA, "file-1")
    await import_texts(platform, ["Kaucja"] * 50)
    await search(platform, searches, store)
    database = tmp_path / "0" / store.id / DATABASE
    for path in database.parent.glob(f"{DATABASE}*"):
        path.write_bytes(b"damaged" * 10_000)
    with pytest.raises(IndexNotReady):
        await search(platform, searches, store)
    assert len(await search(platform, searches, store)) == 10


async def test_an_index_that_missed_forgotten_deletions_loses_the_files(platform: Platform, tmp_path: Path) -> None:
    store = await platform.create(ADA, "file-1", "file-2")
    for text in ("Kaucja", "Kaucja pierwsza"):
        await import_texts(platform, [text])
    searches = VectorStoreSearches(platform.stores, tmp_path, LocalIndex)
    assert len(await search(platform, searches, store)) == 2
    await searches.close()
    await platform.delete_file(store, "file-1")
    assert await platform.records.forget(platform.clock() + TOMBSTONE_TIME, 9) == 1
    again = VectorStoreSearches(platform.stores, tmp_path, LocalIndex)
    assert await search(platform, again, store) == ["Kaucja pierwsza"]
    await again.close()


async def test_a_search_does_not_wait_long_for_an_index_that_is_being_built(platform: Platform, tmp_path: Path) -> None:
    loop, released = asyncio.get_running_loop(), asyncio.Event()

    def wait() -> None:
        asyncio.run_coroutine_threadsafe(released.wait(), loop).result()

    searches = VectorStoreSearches(
        platform.stores, tmp_path, lambda folder: SlowIndex(folder, wait), update_timeout=0.01
    )
    store = await platform.create(ADA, "file-1")
    await import_texts(platform, ["Kaucja"])
    with pytest.raises(IndexNotReady):
        await search(platform, searches, store)
    with pytest.raises(IndexNotReady):
        await searches.prepare(await platform.stores.find(Reader(store.owner), store.id))
    released.set()
    await searches.refresh()
    assert await search(platform, searches, store) == ["Kaucja"]
    await searches.close()


@pytest.mark.parametrize("blocks", [2 * BLOCKS_AT_ONCE, 2 * BLOCKS_AT_ONCE + 1])
async def test_a_large_file_is_read_in_parts_and_begun_again_when_cut_off(
    platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    monkeypatch.setattr(index_update, "PASSAGES_AT_ONCE", 1)
    store = await platform.create(ADA, "file-1")
    await import_texts(platform, [f"Kaucja {number}" for number in range(2 * blocks)])
    index = LocalIndex(tmp_path / "index")
    read, is_broken = platform.passages.read, True

    async def broken(organisation: str, id: str, start: int, limit: int) -> list[PassageBlock]:
        if start and is_broken:
            raise StoreUnavailable
        return await read(organisation, id, start, limit)

    monkeypatch.setattr(platform.passages, "read", broken)
    store = await platform.stores.find(Reader(ADA), store.id)
    with pytest.raises(StoreUnavailable):
        await update_index(index, store, platform.stores)
    assert [each.passages for each in index.files.values()] == [""]
    is_broken = False
    await update_index(index, store, platform.stores)
    hits = index.search(replace(QUERY, limit=1000))
    assert sorted((each.number, each.passage.text) for each in hits) == [
        (number, f"Kaucja {number}") for number in range(2 * blocks)
    ]
    index.close()


async def test_slow_searches_leave_threads_to_everything_else(platform: Platform, tmp_path: Path) -> None:
    searched, released = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    class SlowSearches(LocalIndex):
        def search(self, query: SearchQuery) -> list[Hit]:
            loop.call_soon_threadsafe(searched.set)
            released.wait()
            return super().search(query)

    searches = VectorStoreSearches(platform.stores, tmp_path, SlowSearches)
    store = await platform.create(ADA)
    loop.set_default_executor(ThreadPoolExecutor(1))
    waiting = [asyncio.create_task(search(platform, searches, store)) for _ in range(2 * SEARCH_THREADS)]
    await searched.wait()
    assert await asyncio.to_thread(lambda: "done") == "done"
    released.set()
    assert await asyncio.gather(*waiting) == [[]] * len(waiting)
    await searches.close()


async def test_searches_of_an_organisation_do_not_wait_for_all_of_another(platform: Platform, tmp_path: Path) -> None:
    begun: list[str] = []
    released = threading.Event()

    class SlowSearches(LocalIndex):
        def search(self, query: SearchQuery) -> list[Hit]:
            begun.append(query.questions[0].text)
            released.wait()
            return super().search(query)

    searches = VectorStoreSearches(platform.stores, tmp_path, SlowSearches)

    def ask(store: VectorStore, name: str) -> asyncio.Task[list[Hit]]:
        return asyncio.create_task(searches.search(store, SearchQuery([Question(name)])))

    async def until_waiting(owner: ProjectOwner, count: int) -> None:
        async with asyncio.timeout(30):
            while len(searches._turns._waiting.get(owner.organisation, ())) < count:
                await asyncio.sleep(0.005)

    many, one = await platform.create(ADA), await platform.create(EVE)
    waiting = [ask(many, "many") for _ in range(3 * SEARCH_THREADS)]
    await until_waiting(ADA, 2 * SEARCH_THREADS)
    waiting.append(ask(one, "one"))
    await until_waiting(EVE, 1)
    released.set()
    await asyncio.gather(*waiting)
    assert begun.index("one") < 2 * SEARCH_THREADS
    await searches.close()


async def test_processes_do_not_share_a_folder(platform: Platform, tmp_path: Path) -> None:
    first = VectorStoreSearches(platform.stores, tmp_path, LocalIndex)
    second = VectorStoreSearches(platform.stores, tmp_path, LocalIndex)
    assert sorted(os.listdir(tmp_path)) == ["0", "1"]
    await first.close()
    third = VectorStoreSearches(platform.stores, tmp_path, LocalIndex)
    assert sorted(os.listdir(tmp_path)) == ["0", "1"]
    await second.close()
    await third.close()


async def test_an_interrupted_import_is_not_searched(platform: Platform, searches: VectorStoreSearches) -> None:
    store = await platform.create(ADA, "file-1")
    file = await platform.claim()
    passages = await platform.imports.begin(file, set_id(file), 100)
    block = PassageBlock(passages.id, 0, [Passage("Kaucja", None, (), 0, 6, 1)], pack_vectors([[1, 0]]))
    await platform.imports.add(passages, block)
    assert file.runner == RUNNER
    assert await search(platform, searches, store) == []
