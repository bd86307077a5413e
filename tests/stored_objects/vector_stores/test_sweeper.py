"""Sweeper of vector stores: expired ones, and what interrupted changes and deletions have left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from auth_billing.errors import StoreUnavailable
from stored_objects.errors import DocumentNotFound
from stored_objects.project_documents.project_documents import DAY
from stored_objects.vector_stores import vector_stores
from stored_objects.vector_stores.access import Reader
from stored_objects.vector_stores.passages import PassageSet
from stored_objects.vector_stores.records import UNNUMBERED, FileState, PageQuery, VectorStoreFile
from stored_objects.vector_stores.sweeper import TOMBSTONE_TIME, VectorStoreSweeper
from tests.stored_objects.vector_stores.conftest import ADA, SIZE, Platform, new_file, set_id


@pytest.fixture
def sweeper(platform: Platform) -> VectorStoreSweeper:
    return VectorStoreSweeper(platform.stores, clock=platform.clock)


async def test_an_expired_vector_store_is_deleted_with_its_files(
    platform: Platform, sweeper: VectorStoreSweeper
) -> None:
    store = await platform.create(ADA, "file-1")
    await platform.stores.update(store, name="", metadata={}, expiry_days=1)
    await platform.import_next()
    platform.clock.now += DAY - 1
    await sweeper.sweep()
    assert list(platform.records.stores) == [store.id]
    platform.clock.now += 1
    await sweeper.sweep()
    records = platform.records
    assert (records.stores, records.files, platform.passages.blocks, await platform.used()) == ({}, {}, {}, 0)


async def test_expired_files_are_deleted(platform: Platform, sweeper: VectorStoreSweeper) -> None:
    store = await platform.create(ADA, "file-1")
    expires = platform.clock.now + 60
    await platform.stores.add(store, [replace(new_file("file-2"), expires=expires)])
    await platform.import_next("one")
    await platform.import_next("two")
    platform.clock.now = expires - 1
    await sweeper.sweep()
    assert len(platform.passages.sets) == 2
    platform.clock.now = expires
    with pytest.raises(DocumentNotFound):
        await platform.stores.find_file(store, "file-2")
    await sweeper.sweep()
    left = await platform.stores.page_files(store, PageQuery(9))
    assert [each.file for each in left.items] == ["file-1"]
    assert (len(platform.passages.sets), await platform.used()) == (1, SIZE)


@pytest.mark.parametrize("released", [False, True])
async def test_a_deletion_that_was_cut_off_is_finished(
    platform: Platform, sweeper: VectorStoreSweeper, released: bool
) -> None:
    store = await platform.create(ADA, "file-1")
    file = await platform.import_next()
    await platform.records.delete_file(file, platform.clock())
    if released:
        await platform.passages.release({file.reference: set_id(file)})
    still_counted = file.record_size  # until the count is corrected
    assert await platform.used() == SIZE + still_counted
    await sweeper.sweep()
    (tombstone,) = await platform.records.changed_files(store.id, 1)
    assert (tombstone.state, tombstone.change, tombstone.passages) == (FileState.DELETED, 2, "")
    assert (platform.passages.blocks, await platform.used()) == ({}, still_counted)


async def test_a_deletion_of_a_vector_store_that_was_cut_off_is_finished(
    platform: Platform, sweeper: VectorStoreSweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await platform.create(ADA, "file-1", "file-2")
    await platform.import_next()
    monkeypatch.setattr(vector_stores, "DELETION_BATCH", 1)
    remove, removed = platform.records.remove_files, []

    async def cut_off(files: Sequence[VectorStoreFile]) -> list[VectorStoreFile]:
        if removed:
            raise StoreUnavailable("timed out")
        removed.extend(files)
        return await remove(files)

    monkeypatch.setattr(platform.records, "remove_files", cut_off)
    await platform.stores.delete(store)
    assert await platform.records.find(Reader(ADA), store.id) is None
    assert len(platform.records.files) == 1
    monkeypatch.undo()
    await sweeper.sweep()
    records = platform.records
    assert (records.stores, records.files, platform.passages.blocks, await platform.used()) == ({}, {}, {}, 0)


async def test_passages_that_an_import_keeps_again_during_the_removal_are_erased(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await platform.create(ADA, "file-1")
    file = await platform.import_next()
    release = platform.passages.release

    async def kept_again(references: Mapping[str, str]) -> None:
        await release(references)
        if platform.records.files:
            new = PassageSet(set_id(file), file.organisation, platform.clock.now)
            await platform.passages.keep(new, file.reference)

    monkeypatch.setattr(platform.passages, "release", kept_again)
    await platform.stores.delete(store)
    assert (platform.records.files, platform.passages.sets) == ({}, {})


async def test_a_cancelled_file_gives_back_what_it_took(platform: Platform, sweeper: VectorStoreSweeper) -> None:
    await platform.create(ADA, "file-1")
    file = await platform.claim()
    await platform.imports.begin(file, set_id(file), SIZE)
    platform.records.files[file.id] = replace(platform.records.files[file.id], state=FileState.CANCELLED)
    await sweeper.sweep()
    assert (platform.passages.sets, await platform.used()) == ({}, 0)


async def test_a_change_without_a_number_gets_one(platform: Platform, sweeper: VectorStoreSweeper) -> None:
    store = await platform.create(ADA, "file-1")
    await platform.records.complete([await platform.claim()])
    assert (await platform.stores.find_file(store, "file-1")).change == UNNUMBERED
    await sweeper.sweep()
    assert (await platform.stores.find_file(store, "file-1")).change == 1


async def test_tombstones_are_forgotten_after_a_time(platform: Platform, sweeper: VectorStoreSweeper) -> None:
    store = await platform.create(ADA, "file-1")
    await platform.import_next()
    await platform.delete_file(store, "file-1")
    platform.clock.now += TOMBSTONE_TIME
    await sweeper.sweep()
    assert len(platform.records.files) == 1
    platform.clock.now += 1
    await sweeper.sweep()
    assert platform.records.files == {}
    assert (await platform.stores.find(Reader(ADA), store.id)).forgotten == 2
