"""Vector stores of projects: owners, expiry, files and batches, and a deletion that leaves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auth_billing.errors import NotPermitted
from stored_objects.errors import BlobNotFound, DocumentNotFound, StorageQuotaExceeded
from stored_objects.files.files import FILE_PREFIX, public_id
from stored_objects.objects.records import RECORD_BYTES, ObjectKind, ObjectOwner
from stored_objects.project_documents.project_documents import DAY
from stored_objects.project_documents.quota import REFUSAL_TIME
from stored_objects.vector_stores.access import ORGANISATION, Reader, StoreScope, person_grantee, project_grantee
from stored_objects.vector_stores.records import NEVER, FileCounts, FileState, ImportFailure, PageQuery
from stored_objects.vector_stores.vector_stores import ACTIVITY_INTERVAL, VectorStores
from tests.fakes.byte_counts import document_quota
from tests.stored_objects.conftest import START
from tests.stored_objects.vector_stores.conftest import ADA, BOB, EVE, SIZE, Platform, new_file

NEW_FILE = len("1.pdf") + len("year") + len("2026.0")
"""Bytes of a file's name and attributes."""


async def test_a_vector_store_is_found_by_its_project_alone(platform: Platform) -> None:
    store = await platform.create()
    assert await platform.stores.find(Reader(ADA), store.id) == store
    for other in (BOB, EVE):
        with pytest.raises(DocumentNotFound):
            await platform.stores.find(Reader(other), store.id)
        with pytest.raises(DocumentNotFound):
            await platform.stores.page(Reader(other), PageQuery(1), after=store.id)


def in_project(person: str) -> Reader:
    return Reader(ADA, person)


async def test_a_persons_vector_store_is_read_by_those_whom_it_is_shared_with(platform: Platform) -> None:
    store = await platform.stores.create(ADA, embedder="minilm", scope=StoreScope.PERSON, person="ada")
    shared = {
        person_grantee("bob"): in_project("bob"),
        project_grantee("proj-1"): in_project("carl"),
        ORGANISATION: Reader(BOB),
    }
    strangers = [in_project(""), Reader(EVE, "ada"), *shared.values()]

    async def is_found(reader: Reader) -> bool:
        page = await platform.stores.page(reader, PageQuery(9))
        return [each.id for each in page.items] == [store.id]

    for each in strangers:
        assert not await is_found(each)
        with pytest.raises(DocumentNotFound):
            await platform.stores.find(each, store.id)
    for grantee, reader in shared.items():
        await platform.stores.share(store, grantee)
        assert await is_found(reader)
        with pytest.raises(NotPermitted):
            await platform.stores.find_to_change(reader, store.id)
        await platform.stores.unshare(store, grantee)
        assert not await is_found(reader)
    await platform.stores.unshare(store, store.owner_grantee)
    assert await platform.stores.find_to_change(in_project("ada"), store.id) == store
    with pytest.raises(NotPermitted):  # files are of the project
        await platform.stores.find_to_change(Reader(BOB, "ada"), store.id)
    in_session = Reader(BOB, "ada", in_session=True)
    assert await platform.stores.find_to_change(in_session, store.id) == store
    assert not Reader(EVE, "ada", in_session=True).may_change(store)
    assert not Reader(ADA, "bob", in_session=True).may_change(store)


async def test_an_organisations_vector_store_is_changed_in_its_project_alone(platform: Platform) -> None:
    store = await platform.stores.create(ADA, embedder="minilm", scope=StoreScope.ORGANISATION, person="ada")
    assert StoreScope.of(store) is StoreScope.ORGANISATION
    assert await platform.stores.find_to_change(in_project("bob"), store.id) == store
    assert await platform.stores.find(Reader(BOB), store.id) == store
    with pytest.raises(NotPermitted):
        await platform.stores.find_to_change(Reader(BOB), store.id)
    await platform.stores.unshare(store, ORGANISATION)
    assert StoreScope.of(await platform.stores.find(in_project("bob"), store.id)) is StoreScope.PROJECT
    await platform.stores.delete(store)
    with pytest.raises(DocumentNotFound):
        await platform.stores.share(store, ORGANISATION)


async def test_a_file_that_a_person_uploaded_is_deleted_with_its_content(platform: Platform) -> None:
    store, owner, contents = await platform.create(), ObjectOwner(ADA.organisation, "ada"), platform.files.objects
    stored = await contents.put(owner, b"text", kind=ObjectKind.FILE, media_type="text/plain")
    file = public_id(FILE_PREFIX, stored.id)
    await platform.stores.add(store, [replace(new_file(file), person="ada")])
    await platform.import_next()
    await platform.stores.delete_everywhere(ADA, file)  # as a key of the project that has read the file's id
    assert (await platform.stores.find_file(store, file)).person == "ada"
    await platform.delete_file(store, file)
    with pytest.raises(BlobNotFound):
        await contents.find(owner, stored.id)


async def test_a_page_says_whether_further_items_follow_in_its_direction(platform: Platform) -> None:
    made = []
    for number in range(4):
        platform.clock.now = START + number
        made.append((await platform.create()).id)

    async def page(limit: int, **bounds: Any) -> tuple[list[int], bool]:
        found = await platform.stores.page(Reader(ADA), PageQuery(limit, "asc"), **bounds)
        return [made.index(each.id) for each in found.items], found.has_more

    assert await page(2) == ([0, 1], True)
    assert await page(2, after=made[1]) == ([2, 3], False)
    assert await page(2, before=made[3]) == ([1, 2], True)
    assert await page(2, before=made[2]) == ([0, 1], False)


async def test_an_expiry_moves_with_changes_and_searches(platform: Platform) -> None:
    store = await platform.create()
    assert store.expires == NEVER
    platform.clock.now += 100
    store = await platform.stores.update(store, name="Umowy", metadata={"a": "b"}, expiry_days=2)
    assert (store.last_active, store.expires) == (START + 100, START + 100 + 2 * DAY)
    platform.clock.now += ACTIVITY_INTERVAL - 1
    await platform.stores.searched(store)
    assert await platform.stores.find(Reader(ADA), store.id) == store
    platform.clock.now += 1
    await platform.stores.searched(store)
    found = await platform.stores.find(Reader(ADA), store.id)
    assert found == replace(store, last_active=platform.clock.now, expires=platform.clock.now + 2 * DAY)


async def test_files_keep_the_order_and_the_batch_that_they_were_added_with(platform: Platform) -> None:
    store = await platform.create(ADA, "file-1")
    batch = await platform.stores.add_batch(store, [new_file("file-3"), new_file("file-2")])
    found = await platform.stores.page_files(store, PageQuery(9, "asc"))
    assert [(each.file, each.name, each.batch) for each in found.items] == [
        ("file-1", "file-1.pdf", ""),
        ("file-3", "file-3.pdf", batch.id),
        ("file-2", "file-2.pdf", batch.id),
    ]
    after = await platform.stores.page_files(store, PageQuery(1, "asc"), after="file-1", batch=batch.id)
    assert ([each.file for each in after.items], after.has_more) == (["file-3"], True)
    assert await platform.stores.counts([store]) == {store.id: FileCounts(in_progress=3)}
    assert (await platform.stores.find_batch(store, batch.id)) == batch
    with pytest.raises(DocumentNotFound):
        await platform.stores.find_batch(store, "vsfb_0")
    with pytest.raises(DocumentNotFound):
        await platform.stores.find_file(store, "file-0")


async def test_a_batch_that_is_cancelled_keeps_its_completed_files(platform: Platform) -> None:
    store = await platform.create()
    batch = await platform.stores.add_batch(store, [new_file("file-1"), new_file("file-2")])
    await platform.import_next()
    assert (await platform.stores.cancel_batch(batch)).cancelled
    counts = FileCounts(completed=1, cancelled=1, size=SIZE)
    assert await platform.records.batch_counts(batch) == counts
    assert await platform.imports.waiting(1) == []


async def test_attributes_are_replaced_and_the_change_is_numbered(platform: Platform) -> None:
    store = await platform.create(ADA, "file-1")
    await platform.import_next()
    changed = await platform.stores.set_attributes(store, "file-1", {"year": 2027.0})
    found = await platform.stores.find_file(store, "file-1")
    assert (changed.attributes, found.attributes) == ({"year": 2027.0}, {"year": 2027.0})
    assert (found.change, (await platform.stores.find(Reader(ADA), store.id)).change) == (2, 2)


async def test_a_deleted_file_leaves_neither_passages_nor_counted_bytes(platform: Platform) -> None:
    store = await platform.create(ADA, "file-1")
    await platform.import_next()
    assert (await platform.used(), len(platform.passages.blocks)) == (SIZE, 2)
    await platform.delete_file(store, "file-1")
    assert (await platform.used(), platform.passages.sets, platform.passages.blocks) == (0, {}, {})
    (tombstone,) = await platform.records.changed_files(store.id, 1)
    assert (tombstone.state, tombstone.change) == (FileState.DELETED, 2)
    with pytest.raises(DocumentNotFound):
        await platform.delete_file(store, "file-1")


async def test_passages_that_another_file_of_the_organisation_has_stay(platform: Platform) -> None:
    mine, others = await platform.create(ADA, "file-1"), await platform.create(BOB, "file-2")
    await platform.import_next()
    await platform.import_next()
    assert len(platform.passages.sets) == 1
    assert (await platform.used(ADA), await platform.used(BOB)) == (SIZE, SIZE)
    await platform.delete_file(mine, "file-1")
    assert (await platform.used(ADA), len(platform.passages.blocks)) == (0, 2)
    await platform.stores.delete(others)
    assert (await platform.used(BOB), platform.passages.blocks) == (0, {})


async def test_organisations_share_no_passages(platform: Platform) -> None:
    await platform.create(ADA, "file-1")
    await platform.create(EVE, "file-2")
    first, second = await platform.import_next(), await platform.import_next()
    assert {each.organisation for each in platform.passages.sets.values()} == {"org-1", "org-2"}
    assert (first.organisation, second.organisation) == ("org-1", "org-2")


async def test_a_deleted_vector_store_leaves_nothing(platform: Platform) -> None:
    store = await platform.create(ADA, "file-1", "file-2", "file-3")
    await platform.stores.add_batch(store, [new_file("file-4")])
    await platform.import_next()
    await platform.delete_file(store, "file-2")
    await platform.stores.delete(store)
    records, passages = platform.records, platform.passages
    assert (records.stores, records.files, records.batches, passages.sets, passages.blocks) == ({}, {}, {}, {}, {})
    assert await platform.counted() == 0


async def test_files_added_to_a_vector_store_that_is_being_deleted_are_deleted(platform: Platform) -> None:
    store = await platform.create()
    await platform.stores.delete(store)
    with pytest.raises(DocumentNotFound):
        await platform.stores.add(store, [new_file("file-1")])
    assert platform.records.files == {}


async def test_a_file_that_failed_or_was_deleted_can_be_added_again(platform: Platform) -> None:
    store = await platform.create(ADA, "file-1")
    stores: VectorStores = platform.stores
    await platform.imports.fail(await platform.claim(), ImportFailure("server_error", "No embedder."))
    await stores.add(store, [new_file("file-1")])
    await platform.import_next()
    await platform.delete_file(store, "file-1")
    await stores.add(store, [new_file("file-1")])
    await platform.import_next()
    found = await stores.find_file(store, "file-1")
    assert (found.state, found.additions, found.size) == (FileState.COMPLETED, 3, SIZE)
    assert await platform.used() == SIZE
    assert len(platform.passages.blocks) == 2


async def test_vector_stores_files_and_batches_count_in_the_quota_until_they_are_deleted(platform: Platform) -> None:
    stores = platform.stores
    store = await stores.create(ADA, embedder="minilm", name="Umowy", metadata={"for": "ż" * 50}, files=[new_file("1")])
    assert await platform.counted() == 2 * RECORD_BYTES + len("Umowy") + len("for") + 100 + NEW_FILE
    await stores.add_batch(store, [new_file("1"), new_file("2")])
    store = await stores.update(store, name="", metadata={}, expiry_days=None)
    assert await platform.counted() == 4 * RECORD_BYTES + 2 * NEW_FILE
    await stores.set_attributes(store, "1", {"text": "c" * 500})
    assert await platform.counted() == 4 * RECORD_BYTES + NEW_FILE + len("1.pdf") + len("text") + 500
    await stores.set_attributes(store, "1", {})
    await platform.delete_file(store, "2")
    assert await platform.counted() == 3 * RECORD_BYTES + len("1.pdf")
    await stores.add(store, [new_file("2")])
    assert await platform.counted() == 4 * RECORD_BYTES + len("1.pdf") + NEW_FILE
    assert await platform.used() == 0
    await stores.delete(store)
    assert await platform.counted() == 0


async def test_what_a_project_has_no_room_for_is_not_stored_at_all(platform: Platform) -> None:
    quota = document_quota([platform.records], per_project=3 * RECORD_BYTES, clock=platform.clock)
    stores, records = (
        VectorStores(platform.records, platform.passages, quota, platform.files, clock=platform.clock),
        platform.records,
    )
    files = [new_file(str(number)) for number in range(3)]
    with pytest.raises(StorageQuotaExceeded):
        await stores.create(ADA, embedder="minilm", files=files)
    assert (records.stores, records.files) == ({}, {})
    store = await stores.create(ADA, embedder="minilm")
    with pytest.raises(StorageQuotaExceeded):
        await stores.add_batch(store, files)
    assert (records.files, records.batches) == ({}, {})
    platform.clock.now += REFUSAL_TIME
    await stores.add(store, files[:1])
    with pytest.raises(StorageQuotaExceeded):
        await stores.set_attributes(store, "0", {"text": "c" * RECORD_BYTES})
    with pytest.raises(StorageQuotaExceeded):
        await stores.update(store, name="n" * RECORD_BYTES, metadata={}, expiry_days=None)
    assert (records.stores[store.id].name, (await stores.find_file(store, "0")).attributes) == ("", {"year": 2026.0})
