"""Imports of files: resumed after a crash, shared by content, ended by a cancellation, and paid for by the quota."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stored_objects.errors import StorageQuotaExceeded
from stored_objects.project_documents.quota import REFUSAL_TIME
from stored_objects.vector_stores.imports import LEASE, RETRY_TIME, ImportLost, PassagesBusy, VectorStoreImports
from stored_objects.vector_stores.passages import passage_set_id
from stored_objects.vector_stores.records import Chunking, FileState, ImportFailure
from stored_objects.vector_stores.vector_stores import VectorStores
from tests.fakes.byte_counts import document_quota
from tests.stored_objects.vector_stores.conftest import ADA, BOB, RUNNER, SIZE, Platform, block, set_id


async def test_another_process_goes_on_after_the_last_block(platform: Platform) -> None:
    store = await platform.create(ADA, "file-1")
    file = await platform.claim()
    passages = await platform.imports.begin(file, set_id(file), SIZE)
    await platform.imports.add(passages, block(passages.id, 0))
    platform.clock.now += LEASE
    other = await platform.claim("gateway-2")
    passages = await platform.imports.begin(other, set_id(other), SIZE)
    assert await platform.imports.written(passages) == 1
    await platform.imports.add(passages, block(passages.id, 1))
    await platform.imports.finish(other, passages, 2)
    await platform.imports.complete(other)
    for step in (platform.imports.complete(file), platform.imports.renew(file)):
        with pytest.raises(ImportLost):
            await step
    found = await platform.stores.find_file(store, "file-1")
    assert (found.state, found.size, found.change) == (FileState.COMPLETED, SIZE, 1)
    assert await platform.used() == SIZE


async def test_a_lease_is_kept_as_long_as_it_is_renewed(platform: Platform) -> None:
    await platform.create(ADA, "file-1")
    file = await platform.claim()
    passages = await platform.imports.begin(file, set_id(file), SIZE)
    for _ in range(3):
        platform.clock.now += LEASE - 1
        await platform.imports.renew(file, passages)
        assert await platform.imports.waiting(1) == []


async def test_one_process_embeds_the_same_content_of_two_files_once(platform: Platform) -> None:
    await platform.create(ADA, "file-1")
    await platform.create(BOB, "file-2")
    first, second = await platform.claim(), await platform.claim()
    passages = await platform.imports.begin(first, set_id(first), SIZE)
    with pytest.raises(PassagesBusy):
        await platform.imports.begin(second, set_id(second), SIZE)
    await platform.imports.renew(first, passages)


async def test_one_of_two_files_with_the_same_content_is_embedded(platform: Platform) -> None:
    await platform.create(ADA, "file-1")
    await platform.create(BOB, "file-2")
    first, second = await platform.claim(), await platform.claim("gateway-2")
    passages = await platform.imports.begin(first, set_id(first), SIZE)
    with pytest.raises(PassagesBusy):
        await platform.imports.begin(second, set_id(second), SIZE)
    assert await platform.imports.waiting(1) == []
    for number in range(2):
        await platform.imports.add(passages, block(passages.id, number))
    await platform.imports.finish(first, passages, 2)
    await platform.imports.complete(first)
    platform.clock.now += RETRY_TIME
    again = await platform.claim("gateway-2")
    assert (await platform.imports.begin(again, set_id(again), SIZE)).is_ready
    await platform.imports.complete(again)
    assert (await platform.used(ADA), await platform.used(BOB)) == (SIZE, SIZE)


@pytest.mark.parametrize("deleted", [False, True])
async def test_an_import_ends_when_its_file_is_cancelled_or_deleted(platform: Platform, deleted: bool) -> None:
    store = await platform.create(ADA, "file-1")
    file = await platform.claim()
    passages = await platform.imports.begin(file, set_id(file), SIZE)
    await platform.imports.add(passages, block(passages.id, 0))
    if deleted:
        await platform.delete_file(store, "file-1")
    else:
        cancelled = replace(platform.records.files[file.id], state=FileState.CANCELLED)
        platform.records.files[file.id] = cancelled
        await platform.stores.release(cancelled)
    for step in (
        platform.imports.renew(file, passages),
        platform.imports.add(passages, block(passages.id, 1)),
        platform.imports.finish(file, passages, 2),
        platform.imports.complete(file),
        platform.imports.begin(file, set_id(file), SIZE),
    ):
        with pytest.raises(ImportLost):
            await step
    assert (await platform.used(), platform.passages.sets, platform.passages.blocks) == (0, {}, {})


async def test_a_failed_file_says_why_and_gives_back_what_it_took(platform: Platform) -> None:
    store = await platform.create(ADA, "file-1")
    file = await platform.claim()
    await platform.imports.begin(file, set_id(file), SIZE)
    failure = ImportFailure("unsupported_file", "The file has no text.")
    await platform.imports.fail(file, failure)
    found = await platform.stores.find_file(store, "file-1")
    assert (found.state, found.failure, found.size, found.change) == (FileState.FAILED, failure, 0, 0)
    assert (await platform.used(), platform.passages.sets) == (0, {})
    with pytest.raises(ImportLost):
        await platform.imports.fail(file, failure)


async def test_a_file_read_otherwise_by_a_later_try_keeps_the_later_passages(platform: Platform) -> None:
    await platform.create(ADA, "file-1")
    file = await platform.claim()
    await platform.imports.begin(file, set_id(file, "first"), SIZE)
    platform.clock.now += LEASE
    again = await platform.claim()
    passages = await platform.imports.begin(again, set_id(again, "second"), SIZE - 100)
    assert list(platform.passages.sets) == [passages.id]
    assert await platform.used() == SIZE - 100


async def test_a_project_without_room_imports_nothing(platform: Platform) -> None:
    await platform.create(ADA, "file-1")
    room = await platform.records_size() + SIZE - 1
    quota = document_quota([platform.records], per_project=room, clock=platform.clock)
    stores = VectorStores(platform.records, platform.passages, quota, platform.files, clock=platform.clock)
    file = await platform.claim()
    with pytest.raises(StorageQuotaExceeded):
        await VectorStoreImports(stores, clock=platform.clock).begin(file, set_id(file), SIZE)
    assert platform.passages.sets == {}
    platform.clock.now += REFUSAL_TIME
    assert await VectorStoreImports(stores, clock=platform.clock).begin(file, set_id(file), SIZE - 1)


def test_the_id_of_a_set_depends_on_all_that_its_passages_depend_on() -> None:
    named = [
        passage_set_id(*each)
        for each in (
            ("org-1", "sha", "minilm", Chunking(800, 400), "1"),
            ("org-2", "sha", "minilm", Chunking(800, 400), "1"),
            ("org-1", "sha2", "minilm", Chunking(800, 400), "1"),
            ("org-1", "sha", "bge", Chunking(800, 400), "1"),
            ("org-1", "sha", "minilm", Chunking(800, 0), "1"),
            ("org-1", "sha", "minilm", Chunking(800, 400), "2"),
        )
    ]
    assert len(set(named)) == len(named)
    assert passage_set_id("org-1", "sha", "minilm", Chunking(800, 400, auto=True), "1") == named[0]
    assert RUNNER not in named
