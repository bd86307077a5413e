"""Vector stores and their files in MongoDB and in memory: owners, pages, leases, change numbers, tombstones."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from stored_objects.objects.records import RECORD_BYTES
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.store.vector_stores import MongoVectorStores
from stored_objects.vector_stores.access import ORGANISATION, Reader, person_grantee
from stored_objects.vector_stores.record_store import VectorStoreStore
from stored_objects.vector_stores.records import (
    UNNUMBERED,
    Chunking,
    FileBatch,
    FileCounts,
    FileState,
    ImportFailure,
    PageQuery,
    Place,
    VectorStore,
    VectorStoreFile,
)
from tests.fakes.vector_stores import DictVectorStores
from tests.stored_objects.conftest import START

ADA, EVE = ProjectOwner("org-1", "proj-1"), ProjectOwner("org-2", "proj-1")
RUNNER, OTHER = "gateway-1", "gateway-2"
CHUNKING = Chunking(800, 400, auto=True)


@pytest.fixture(params=["memory", pytest.param("store", marks=pytest.mark.store)])
def records(request: pytest.FixtureRequest) -> VectorStoreStore:
    if request.param == "memory":
        return DictVectorStores()
    return MongoVectorStores(request.getfixturevalue("connection"))


def store(id: str = "vs_1", created: float = START, owner: ProjectOwner = ADA, **fields: Any) -> VectorStore:
    return VectorStore(id, owner.organisation, owner.project, created, created, "minilm", **fields)


def file(id: str = "file-1", created: float = START, vector_store: str = "vs_1", **fields: Any) -> VectorStoreFile:
    return VectorStoreFile(vector_store, id, "org-1", "proj-1", created, CHUNKING, **fields)


async def claimed(records: VectorStoreStore, *files: VectorStoreFile) -> list[VectorStoreFile]:
    await records.add_files(files or [file()])
    return [await claim(records, START) for _ in files or [0]]


async def claim(records: VectorStoreStore, now: float, runner: str = RUNNER) -> VectorStoreFile:
    (waiting,) = await records.waiting(now, 1)
    found = await records.claim(waiting, runner, now, now + 30)
    assert found is not None
    return found


async def read(records: VectorStoreStore, id: str = "file-1") -> VectorStoreFile:
    (found,) = await records.find_files("vs_1", [id])
    return found


async def test_a_file_is_listed_as_all_vector_stores_of_its_owner_have_it(records: VectorStoreStore) -> None:
    await records.add_files([file(), file("file-2")])
    await records.add_files([file(vector_store="vs_2"), file(vector_store="vs_3")])
    await records.delete_file(file(vector_store="vs_3"), START)
    assert {each.vector_store for each in await records.of_file(ADA, "file-1")} == {"vs_1", "vs_2"}
    assert await records.of_file(EVE, "file-1") == []


async def test_every_field_of_a_vector_store_is_read_as_it_was_written(records: VectorStoreStore) -> None:
    written = store(name="Umowy", metadata={"a.b": "$x", "": "y"}, expiry_days=7, expires=START + 7)
    await records.insert(written)
    await records.insert(replace(written, name="again"))
    assert await records.find(Reader(ADA), "vs_1") == written
    assert await records.find(Reader(EVE), "vs_1") is None
    changed = replace(written, name="", metadata={}, expiry_days=None, expires=float("inf"), last_active=START + 5)
    assert await records.update(changed) == written
    assert await records.find(Reader(ADA), "vs_1") == changed
    assert await records.find_any(["vs_1", "vs_2"]) == [changed]
    assert await records.find_any([]) == []
    assert await records.stored_bytes("org-1", None) == changed.record_size
    assert await records.remove("vs_1") == changed
    assert await records.remove("vs_1") is None
    assert await records.update(changed) is None
    assert await records.find(Reader(ADA), "vs_1") is None


async def test_readers_are_added_and_removed(records: VectorStoreStore) -> None:
    mine = store(person="ada", shared_with=[person_grantee("bob")])
    await records.insert(mine)
    await records.insert(store("vs_2"))
    readers = [Reader(ADA, "ada"), Reader(ADA, "bob"), Reader(ADA, "carl"), Reader(EVE, "ada")]

    async def found() -> list[bool]:
        return [await records.find(each, "vs_1") is not None for each in readers]

    assert await found() == [True, True, False, False]
    assert [each.id for each in await records.page(readers[2], PageQuery(9))] == ["vs_2"]
    for _ in range(2):
        assert await records.share("vs_1", ORGANISATION)
    assert await found() == [True, True, True, False]
    assert (await records.find_any(["vs_1"]))[0].shared_with == [person_grantee("bob"), ORGANISATION]
    assert await records.update(replace(mine, name="Umowy"))
    assert await found() == [True, True, True, False]
    for grantee in (ORGANISATION, person_grantee("bob"), person_grantee("ada"), person_grantee("none")):
        await records.unshare("vs_1", grantee)
    assert await found() == [True, False, False, False]
    assert not await records.share("vs_3", ORGANISATION)


async def test_those_of_other_people_are_read_by_page(records: VectorStoreStore) -> None:
    people = ("ada", "bob", "", "carl", "bob")
    for number, person in enumerate(people):
        await records.insert(store(f"vs_{number}", START + number, person=person))
    await records.insert(store("vs_9", START, EVE, person="bob"))

    async def found(members: list[str], **fields: Any) -> list[str]:
        return [each.id for each in await records.page_of_others("org-1", members, PageQuery(2, **fields))]

    assert await found(["ada", "eve"]) == ["vs_4", "vs_3"]
    assert await found(["ada", "eve"], after=Place(START + 3, "vs_3")) == ["vs_1"]
    assert await found([], after=Place(START + 1, "vs_1")) == ["vs_0"]


async def test_expired_vector_stores_are_found_for_all_owners(records: VectorStoreStore) -> None:
    for each in (store(expires=START), store("vs_2", owner=EVE, expires=START + 1), store("vs_3")):
        await records.insert(each)
    assert {each.id for each in await records.expired(START + 1, 9)} == {"vs_1", "vs_2"}
    assert await records.expired(START - 1, 9) == []
    await records.hide("vs_3", START - 1)
    await records.hide("vs_4", START - 1)
    assert [each.id for each in await records.expired(START - 1, 9)] == ["vs_3"]


async def test_nobody_finds_or_changes_a_vector_store_that_is_being_deleted(records: VectorStoreStore) -> None:
    mine = store(person="ada", shared_with=[person_grantee("bob")])
    await records.insert(mine)
    assert len(await records.page_of_others("org-1", [], PageQuery(9))) == 1
    await records.hide("vs_1", START)
    for person in ("ada", "bob"):
        assert await records.find(Reader(ADA, person), "vs_1") is None
        assert await records.page(Reader(ADA, person), PageQuery(9)) == []
    assert await records.page_of_others("org-1", [], PageQuery(9)) == []
    assert await records.update(replace(mine, name="Umowy")) is None
    assert not await records.share("vs_1", ORGANISATION)
    (left,) = await records.expired(START, 9)
    assert (left.name, left.shared_with, left.deleted) == (mine.name, mine.shared_with, True)


async def test_pages_lie_between_two_places_in_either_order(records: VectorStoreStore) -> None:
    made = [store(f"vs_{number}", START + number // 2) for number in range(6)]
    for each in [*made, store("vs_9", owner=EVE)]:
        await records.insert(each)
    places = [Place(each.created, each.id) for each in made]

    async def ids(**query: Any) -> str:
        return "".join(each.id.removeprefix("vs_") for each in await records.page(Reader(ADA), PageQuery(**query)))

    assert await ids(limit=9) == "543210"
    assert await ids(limit=2, order="asc") == "01"
    assert await ids(limit=2, order="asc", after=places[1]) == "23"
    assert await ids(limit=2, after=places[4]) == "32"
    assert await ids(limit=2, order="asc", before=places[3]) == "12"
    assert await ids(limit=2, before=places[3]) == "54"
    assert await ids(limit=9, order="asc", after=places[0], before=places[4]) == "123"


async def test_every_field_of_a_file_is_read_as_it_was_written(records: VectorStoreStore) -> None:
    written = file(
        name="umowa.pdf", attributes={"a.b": "$x", "year": 2026.0, "signed": True}, batch="vsfb_1", expires=START
    )
    await records.add_files([written])
    assert await records.find_file(ADA, "vs_1", "file-1") == written
    assert await records.find_file(EVE, "vs_1", "file-1") is None
    assert await records.find_file(ADA, "vs_2", "file-1") is None


async def test_expired_files_are_found_until_they_are_deleted(records: VectorStoreStore) -> None:
    await records.add_files([file(expires=START), file("file-2", expires=START + 1), file("file-3")])
    assert [each.file for each in await records.expired_files(START, 9)] == ["file-1"]
    await records.delete_file(file(), START)
    assert [each.file for each in await records.expired_files(START + 1, 9)] == ["file-2"]


async def test_files_are_listed_by_state_and_batch_and_counted(records: VectorStoreStore) -> None:
    batch = FileBatch("vsfb_1", "vs_1", "org-1", "proj-1", START)
    await records.insert_batch(batch)
    added = [file(f"file-{n}", START + n, batch="" if n == 3 else "vsfb_1") for n in range(5)]
    first, second, *_ = await claimed(records, *added)
    assert await records.set_passages(first, "set", 700)
    assert await records.complete([first]) == [True]
    assert await records.fail(second, ImportFailure("invalid_file", "It is empty."))
    assert await records.delete_file(added[4], START) is not None

    async def ids(**query: Any) -> list[str]:
        found = await records.page_files("vs_1", PageQuery(9, "asc"), **query)
        return [each.file for each in found]

    assert await ids() == ["file-0", "file-1", "file-2", "file-3"]
    assert await ids(state=FileState.FAILED) == ["file-1"]
    assert await ids(state=FileState.IN_PROGRESS, batch="vsfb_1") == ["file-2"]
    counts = FileCounts(in_progress=2, completed=1, failed=1, size=700)
    assert await records.counts(["vs_1", "vs_2"]) == {"vs_1": counts, "vs_2": FileCounts()}
    assert await records.batch_counts(batch) == replace(counts, in_progress=1)
    assert counts.total == 4
    counted = 700 + 5 * RECORD_BYTES  # of four files and a batch
    assert await records.stored_bytes("org-1", None) == counted
    assert await records.stored_bytes("org-1", "project:proj-1") == counted
    assert await records.stored_bytes("org-1", "user-1") == await records.stored_bytes("org-2", None) == 0
    await records.cancel_batch(batch)
    assert await records.batch_counts(batch) == replace(counts, in_progress=0, cancelled=1)
    assert await ids(state=FileState.IN_PROGRESS) == ["file-3"]
    assert await records.find_batch(ADA, "vs_1", "vsfb_1") == replace(batch, cancelled=True)
    assert await records.find_batch(EVE, "vs_1", "vsfb_1") is None
    assert await records.find_batch(ADA, "vs_2", "vsfb_1") is None


async def test_one_of_several_processes_imports_a_file(records: VectorStoreStore) -> None:
    await records.add_files([file("file-2", START + 1), file("file-1", START)])
    waiting = await records.waiting(START + 5, 9)
    assert [each.file for each in waiting] == ["file-1", "file-2"]
    assert await records.waiting(START + 5, 1) == waiting[:1]
    claims = await asyncio.gather(
        *(records.claim(each, f"gateway-{n}", START + 5, START + 35) for n in range(4) for each in waiting)
    )
    held = sorted((each for each in claims if each is not None), key=lambda each: each.file)
    assert [each.file for each in held] == ["file-1", "file-2"]
    assert held == [await read(records, each.file) for each in held]
    assert await records.renew(held[0], START + 60)
    assert await records.waiting(START + 34, 9) == []
    assert await records.claim(held[1], OTHER, START + 34, START + 64) is None
    assert await records.is_held(held[1])
    taken = await claim(records, START + 35, OTHER)
    assert (taken.file, taken.runner, taken.claims) == ("file-2", OTHER, 2)
    assert not await records.is_held(held[1])
    lost, failure = held[1], ImportFailure("server_error", "Lost.")
    assert not await records.renew(lost, START + 90)
    assert not await records.set_passages(lost, "set", 1)
    assert await records.complete([lost]) == [False]
    assert not await records.fail(lost, failure)
    assert await records.fail(taken, failure)
    assert (await read(records, "file-2")).failure == failure


async def test_files_of_organisations_that_are_passed_over_wait(records: VectorStoreStore) -> None:
    later = replace(file("file-2", START + 1, "vs_2"), organisation="org-2")
    await records.add_files([file("file-1", START)])
    await records.add_files([later])
    assert [each.file for each in await records.waiting(START + 5, 9, {"org-1"})] == ["file-2"]
    assert await records.waiting(START + 5, 9, ["org-1", "org-2"]) == []
    assert len(await records.waiting(START + 5, 9)) == 2


async def test_a_file_that_has_changed_since_it_was_read_is_not_claimed(records: VectorStoreStore) -> None:
    await records.add_files([file()])
    (as_read,) = await records.waiting(START, 9)
    assert await records.set_attributes(as_read, {"year": 2026.0})
    assert await records.claim(as_read, RUNNER, START, START + 30) is None
    assert (await claim(records, START)).attributes == {"year": 2026.0}


async def test_a_file_that_waits_or_is_complete_is_not_added_again(records: VectorStoreStore) -> None:
    (held,) = await claimed(records)
    await records.add_files([file(created=START + 9, name="again")])
    assert await read(records) == held
    assert await records.complete([held], "Pages 3-5 were not read.") == [True]
    assert (await read(records)).warning == "Pages 3-5 were not read."
    await records.add_files([file(created=START + 9, name="again")])
    assert (await read(records)).name == ""


async def test_a_file_that_ended_is_imported_again_once_its_passages_are_released(records: VectorStoreStore) -> None:
    (held,) = await claimed(records)
    assert await records.set_passages(held, "set", 700)
    assert not await records.release_passages(replace(held, passages="set"))  # it needs them
    assert await records.fail(held, ImportFailure("server_error", "No embedder."))
    (failed,) = await records.unreleased(9)
    assert (failed.state, failed.passages, failed.size) == (FileState.FAILED, "set", 700)
    again = file("file-1", START + 9, name="again")
    assert await records.add_files([again]) == 0
    assert await read(records) == failed
    assert not await records.release_passages(replace(failed, passages="other"))
    assert await records.release_passages(failed)
    assert not await records.release_passages(failed)
    assert await records.add_files([again, file("file-2")]) == len("again") + RECORD_BYTES
    expected = replace(again, additions=2, claims=1)
    assert await read(records) == expected
    assert expected.reference != failed.reference
    assert await records.unreleased(9) == []


async def test_a_change_is_listed_before_and_after_it_is_numbered(records: VectorStoreStore) -> None:
    await records.insert(store())
    (held,) = await claimed(records)
    assert await records.changed_files("vs_1", 0) == []
    assert await records.complete([held]) == [True]
    (complete,) = await records.changed_files("vs_1", 10**6)
    assert (complete.state, complete.change, complete.revision) == (FileState.COMPLETED, UNNUMBERED, 1)
    assert await records.unnumbered(9) == [complete]
    await records.number([complete])
    assert [each.change for each in await records.changed_files("vs_1", 0)] == [1]
    assert await records.changed_files("vs_1", 1) == await records.unnumbered(9) == []
    found = await records.find(Reader(ADA), "vs_1")
    assert found is not None
    assert found.change == 1


async def test_a_number_that_comes_after_a_further_change_does_not_hide_it(records: VectorStoreStore) -> None:
    await records.insert(store())
    (held,) = await claimed(records)
    assert await records.complete([held]) == [True]
    complete = await read(records)
    size = await records.stored_bytes("org-1", None)
    assert await records.set_attributes(complete, {"year": 2026.0})
    assert await records.stored_bytes("org-1", None) == size + len("year") + len("2026.0")
    assert not await records.set_attributes(complete, {"year": 2027.0})
    await records.number([complete])
    changed = await read(records)
    assert (changed.change, changed.attributes) == (UNNUMBERED, {"year": 2026.0})
    await records.number([changed])
    assert (await read(records)).change == 2


async def test_only_files_that_are_held_are_completed_together(records: VectorStoreStore) -> None:
    held = await claimed(records, *(file(f"file-{n}", START + n) for n in range(4)))
    taken = await claim(records, START + 40, OTHER)
    assert await records.delete_file(held[3], START) is not None
    assert await records.complete(held) == [False, True, True, False]
    assert await records.complete([held[1], taken]) == [True, True]  # a repeated call
    found = [await read(records, each.file) for each in held[:3]]
    assert [(each.state, each.revision) for each in found] == [(FileState.COMPLETED, 1)] * 3


async def test_files_of_a_vector_store_are_numbered_together(records: VectorStoreStore) -> None:
    await records.insert(store())
    await records.insert(store("vs_2"))
    held = await claimed(records, file(), file("file-2", START + 1), file("file-3", START + 2, "vs_2"))
    assert await records.complete(held) == [True] * 3
    assert await records.set_attributes(await read(records), {"year": 2026.0})
    await records.number(await records.unnumbered(9))
    assert await records.unnumbered(9) == []
    assert [(each.change, each.revision) for each in await records.changed_files("vs_1", 0)] == [(1, 2), (1, 1)]
    assert [each.change for each in await records.changed_files("vs_2", 0)] == [1]
    await records.number([])


async def test_a_tombstone_is_listed_until_an_index_must_be_built_anew(records: VectorStoreStore) -> None:
    await records.insert(store())
    (held,) = await claimed(records, file(name="umowa.pdf", attributes={"a": "b"}))
    assert await records.set_passages(held, "set", 700)
    before = await records.delete_file(held, START + 5)
    assert before is not None
    assert (before.state, before.passages, before.size) == (FileState.IN_PROGRESS, "set", 700)
    assert await records.stored_bytes("org-1", None) == 700 + store().record_size
    assert await records.delete_file(held, START + 6) is None
    assert await records.complete([held]) == [False]
    assert await records.find_file(ADA, "vs_1", "file-1") is None
    (tombstone,) = await records.changed_files("vs_1", 0)
    assert (tombstone.state, tombstone.name, tombstone.attributes) == (FileState.DELETED, "", {})
    assert await records.forget(START + 6, 9) == 0  # it has no number, and names passages
    await records.number([tombstone])
    assert await records.forget(START + 6, 9) == 0
    assert await records.release_passages(tombstone)
    assert await records.forget(START + 5, 9) == 0
    assert await records.forget(START + 6, 9) == 1
    assert await records.changed_files("vs_1", 0) == []
    found = await records.find(Reader(ADA), "vs_1")
    assert found is not None
    assert (found.change, found.forgotten) == (1, 1)


async def test_what_remains_of_a_vector_store_is_removed_unless_it_has_changed(records: VectorStoreStore) -> None:
    await records.insert_batch(FileBatch("vsfb_1", "vs_1", "org-1", "proj-1", START))
    await records.add_files([file(), file("file-2"), file("file-3"), file(vector_store="vs_2")])
    await records.delete_file(file(), START)
    assert len(await records.remaining("vs_1", 2)) == 2
    remaining = await records.remaining("vs_1", 9)
    assert sorted(each.file for each in remaining) == ["file-1", "file-2", "file-3"]
    assert await records.set_attributes(file("file-3"), {"changed": True})
    assert [each.file for each in await records.remove_files(remaining)] == [
        each.file for each in remaining if each.file != "file-3"
    ]
    assert await records.remove_files(remaining) == []
    assert [each.file for each in await records.remaining("vs_1", 9)] == ["file-3"]
    assert len(await records.find_files("vs_2", ["file-1"])) == 1
    assert await records.remove_batches("vs_1") == 1
    assert await records.remove_batches("vs_1") == 0
    assert await records.find_batch(ADA, "vs_1", "vsfb_1") is None
