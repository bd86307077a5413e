"""Documents of projects, in memory and in MongoDB: owners, pages, filters, expiry and erasure."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from stored_objects.errors import DocumentNotFound, StorageQuotaExceeded
from stored_objects.objects.quota import QUIET_TIME, CountSubject
from stored_objects.objects.records import RECORD_BYTES
from stored_objects.project_documents import project_documents
from stored_objects.project_documents.project_documents import (
    DAY,
    DocumentPage,
    NewDocument,
    ProjectDocuments,
    Retention,
)
from stored_objects.project_documents.records import DocumentQuery, DocumentStore, ProjectOwner
from stored_objects.store import documents as store_documents
from stored_objects.store.documents import COMPLETIONS, MongoDocumentStore
from tests.fakes import project_documents as fake_documents
from tests.fakes.byte_counts import document_quota
from tests.fakes.project_documents import DictDocumentStore
from tests.stored_objects.conftest import Clock

OURS, THEIRS = ProjectOwner("org-1", "proj-1"), ProjectOwner("org-1", "proj-2")
ELSEWHERE = ProjectOwner("org-2", "proj-1")
LIMIT = 3 * 2**20
"""Bytes that a project may store."""
CONTENT = b'{"$ref": "#/a.b", "text": "\\u0000\xc3\xb3"}'


@pytest.fixture(params=["memory", pytest.param("store", marks=pytest.mark.store)])
def store(request: pytest.FixtureRequest) -> DocumentStore:
    if request.param == "memory":
        return DictDocumentStore()
    return MongoDocumentStore(request.getfixturevalue("connection"), COMPLETIONS)


@pytest.fixture
def documents(store: DocumentStore, clock: Clock) -> ProjectDocuments:
    return ProjectDocuments(
        store, Retention(30, {"proj-2": 7}), document_quota([store], LIMIT, clock=clock), clock=clock
    )


def ids(page: DocumentPage) -> list[str]:
    return [each.id for each in page.documents]


async def test_a_document_is_found_as_it_was_stored(documents: ProjectDocuments, clock: Clock) -> None:
    metadata = {"key=a": "b\nc=d", "": ""}
    (stored,) = await documents.add(OURS, NewDocument("a", CONTENT, metadata, model="m"))
    assert (stored.created, stored.expires) == (clock.now, clock.now + 30 * DAY)
    found = await documents.find(OURS, "a")
    assert found == stored
    assert (found.content, found.metadata, found.owner) == (CONTENT, metadata, OURS)


async def test_several_are_found_by_their_ids(documents: ProjectDocuments) -> None:
    stored = await documents.add(OURS, *(NewDocument(each, b"{}") for each in "abc"))
    found = await documents.find_many(OURS, ["c", "a", "unknown"])
    assert sorted(found, key=lambda each: each.id) == [stored[0], stored[2]]
    assert await documents.find_many(THEIRS, ["a"]) == await documents.find_many(OURS, []) == []


async def test_other_projects_can_not_tell_that_it_exists(documents: ProjectDocuments) -> None:
    (stored,) = await documents.add(OURS, NewDocument("a", b"{}"))
    for owner in (THEIRS, ELSEWHERE, ProjectOwner("org-1", "")):
        for id in ("a", "unknown"):
            with pytest.raises(DocumentNotFound):
                await documents.find(owner, id)
            with pytest.raises(DocumentNotFound):
                await documents.set_metadata(owner, id, {"a": "b"})
            with pytest.raises(DocumentNotFound):
                await documents.page(owner, DocumentQuery(limit=1), after=id)
            with pytest.raises(DocumentNotFound):
                await documents.delete(owner, id)
        assert ids(await documents.page(owner, DocumentQuery(limit=10))) == []
    assert await documents.find(OURS, "a") == stored


async def test_pages_follow_each_other_in_both_orders(documents: ProjectDocuments, clock: Clock) -> None:
    await documents.add(OURS, *(NewDocument(id, b"{}") for id in "cab"))
    clock.now += 1
    await documents.add(OURS, NewDocument("d", b"{}"))
    await documents.add(THEIRS, NewDocument("e", b"{}"))
    await documents.add(OURS, NewDocument("f", b"{}", parent="d"))
    first = await documents.page(OURS, DocumentQuery(limit=3))
    assert (ids(first), first.has_more) == (["c", "a", "b"], True)
    last = await documents.page(OURS, DocumentQuery(limit=3), after="b")
    assert (ids(last), last.has_more) == (["d"], False)
    newest = await documents.page(OURS, DocumentQuery(limit=2, order="desc"))
    assert (ids(newest), newest.has_more) == (["d", "b"], True)
    assert ids(await documents.page(OURS, DocumentQuery(limit=2, order="desc"), after="b")) == ["a", "c"]
    assert ids(await documents.page(OURS, DocumentQuery(limit=2, parent="d"))) == ["f"]


async def test_a_page_of_long_documents_ends_early(
    documents: ProjectDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (project_documents, store_documents, fake_documents):
        monkeypatch.setattr(module, "PAGE_BYTES", 10)
    sizes = {"a": 4, "b": 6, "c": 1, "d": 20, "e": 20, "f": 3}
    for id, size in sizes.items():
        await documents.add(OURS, NewDocument(id, b"x" * size))
    pages, after = [], None
    while True:
        page = await documents.page(OURS, DocumentQuery(limit=5), after=after)
        pages.append(ids(page))
        if not page.has_more:
            break
        after = pages[-1][-1]
    assert pages == [["a", "b"], ["c"], ["d"], ["e"], ["f"]]
    newest = await documents.page(OURS, DocumentQuery(limit=1, order="desc"), after="c")
    assert (ids(newest), newest.has_more) == (["b"], True)


async def test_a_long_page_reads_no_more_than_it_shows(store: DocumentStore, documents: ProjectDocuments) -> None:
    await documents.add(OURS, *(NewDocument(f"{number}", b"x" * 300_000) for number in range(10)))
    assert len(await store.page(OURS, DocumentQuery(limit=11), 0.0)) == 10
    with pytest.MonkeyPatch.context() as patched:
        for module in (store_documents, fake_documents):
            patched.setattr(module, "PAGE_BYTES", 700_000)
        assert len(await store.page(OURS, DocumentQuery(limit=11), 0.0)) == 3


async def test_lists_are_filtered_by_model_and_whole_pairs(documents: ProjectDocuments) -> None:
    await documents.add(
        OURS,
        NewDocument("a", b"{}", {"k": "v", "l": "w"}, model="m"),
        NewDocument("b", b"{}", {"k": "v2"}, model="m"),
        NewDocument("c", b"{}", {"k": "v"}, model="n"),
    )

    async def found(**filters: object) -> list[str]:
        return ids(await documents.page(OURS, DocumentQuery(limit=10, **filters)))  # type: ignore[arg-type]

    assert await found(model="m") == ["a", "b"]
    assert await found(metadata={"k": "v"}) == ["a", "c"]
    assert await found(metadata={"k": "v", "l": "w"}) == ["a"]
    assert await found(metadata={"k": "v"}, model="n") == ["c"]
    assert await found(metadata={"k": ""}) == []


async def test_changes_keep_the_rest(documents: ProjectDocuments) -> None:
    (stored,) = await documents.add(OURS, NewDocument("a", b"{}", {"k": "v"}, model="m"))
    changed = await documents.set_metadata(OURS, "a", {"l": "w"})
    assert changed == replace(stored, metadata={"l": "w"})
    assert await documents.find(OURS, "a") == changed


async def test_a_repeated_write_changes_nothing(documents: ProjectDocuments) -> None:
    (stored,) = await documents.add(OURS, NewDocument("a", b"1"))
    await documents.add(OURS, NewDocument("a", b"2"), NewDocument("b", b"3"))
    assert await documents.find(OURS, "a") == stored
    assert (await documents.find(OURS, "b")).content == b"3"


async def test_a_deleted_document_is_erased_with_its_items(documents: ProjectDocuments, store: DocumentStore) -> None:
    await documents.add(OURS, NewDocument("a", b"{}"), NewDocument("b", b"{}", parent="a"), NewDocument("c", b"{}"))
    await documents.delete(OURS, "a")
    for id in ("a", "b"):
        assert await store.find(OURS, id, now=0.0) is None
    with pytest.raises(DocumentNotFound):
        await documents.delete(OURS, "a")
    assert ids(await documents.page(OURS, DocumentQuery(limit=10))) == ["c"]


async def test_each_project_has_its_retention(documents: ProjectDocuments, store: DocumentStore, clock: Clock) -> None:
    await documents.add(OURS, NewDocument("a", b"{}"))
    await documents.add(THEIRS, NewDocument("b", b"{}"), NewDocument("c", b"{}"))
    clock.now += 7 * DAY
    with pytest.raises(DocumentNotFound):
        await documents.find(THEIRS, "b")
    assert ids(await documents.page(THEIRS, DocumentQuery(limit=10))) == []
    assert ids(await documents.page(OURS, DocumentQuery(limit=10))) == ["a"]
    assert await documents.delete_expired(1) == 1
    assert await documents.delete_expired(9) == 1
    assert await documents.delete_expired(9) == 0
    assert [await store.find(THEIRS, id, now=0.0) for id in "bc"] == [None, None]
    assert await store.find(OURS, "a", now=0.0) is not None


async def test_a_document_that_gets_items_is_kept_with_all_of_them(
    documents: ProjectDocuments, store: DocumentStore, clock: Clock
) -> None:
    (first, _) = await documents.add(OURS, NewDocument("a", b"{}"), NewDocument("b", b"{}", parent="a"))
    clock.now += 29 * DAY
    await documents.add(OURS, NewDocument("c", b"{}", parent="a"))
    await documents.renew(first)
    clock.now += 29 * DAY
    assert ids(await documents.page(OURS, DocumentQuery(limit=9, parent="a"))) == ["b", "c"]
    assert (await documents.find(OURS, "a")).expires == clock.now + DAY


async def test_items_that_are_added_to_a_deleted_document_are_erased(
    documents: ProjectDocuments, store: DocumentStore
) -> None:
    (first,) = await documents.add(OURS, NewDocument("a", b"{}"))
    await documents.delete(OURS, "a")
    await documents.add(OURS, NewDocument("b", b"{}", parent="a"))
    with pytest.raises(DocumentNotFound):
        await documents.renew(first)
    assert await store.find(OURS, "b", now=0.0) is None


async def test_a_page_follows_items_of_its_own_list_only(documents: ProjectDocuments) -> None:
    await documents.add(OURS, NewDocument("a", b"{}"), NewDocument("b", b"{}", parent="a"))
    with pytest.raises(DocumentNotFound):
        await documents.page(OURS, DocumentQuery(limit=9), after="b")
    with pytest.raises(DocumentNotFound):
        await documents.page(OURS, DocumentQuery(limit=9, parent="a"), after="a")


async def refusal(documents: ProjectDocuments, id: str, size: int = 2**20) -> StorageQuotaExceeded:
    with pytest.raises(StorageQuotaExceeded) as refused:
        await documents.add(OURS, NewDocument(id, bytes(size)))
    return refused.value


async def test_a_full_project_stores_nothing_more(
    documents: ProjectDocuments, store: DocumentStore, clock: Clock
) -> None:
    await documents.add(OURS, NewDocument("a", bytes(2**20)), NewDocument("b", bytes(2**20), parent="a"))
    assert (await refusal(documents, "c")).limit == LIMIT
    assert await store.find(OURS, "c", now=0.0) is None
    await documents.add(THEIRS, NewDocument("c", bytes(2**20)))
    await documents.delete(OURS, "a")
    await documents.add(OURS, NewDocument("d", bytes(2 * 2**20)))
    assert await store.stored_bytes("org-1", OURS.quota_owner.requester) == 2 * 2**20 + RECORD_BYTES
    assert await store.stored_bytes("org-1", None) == 3 * 2**20 + 2 * RECORD_BYTES
    assert await store.stored_bytes("org-1", "user-ada") == 0


async def test_what_has_expired_is_given_back(documents: ProjectDocuments, clock: Clock) -> None:
    await documents.add(OURS, NewDocument("a", bytes(2 * 2**20)), NewDocument("b", b"{}", parent="a"))
    clock.now += 30 * DAY
    await refusal(documents, "c")
    assert await documents.delete_expired(9) == 2
    await documents.add(OURS, NewDocument("c", bytes(2 * 2**20)))


async def test_what_a_killed_process_had_reserved_is_given_back(documents: ProjectDocuments, clock: Clock) -> None:
    await documents.add(OURS, NewDocument("a", bytes(2**20)))
    await documents.quota.reserve(OURS, 2**20)  # for a document that is never written
    await refusal(documents, "b")
    clock.now += QUIET_TIME + 1
    await documents.add(OURS, NewDocument("b", bytes(2**20)))
    await refusal(documents, "c", 2**20)


async def test_items_that_are_erased_by_themselves_are_given_back(documents: ProjectDocuments) -> None:
    (first,) = await documents.add(OURS, NewDocument("a", b"{}"))
    await documents.delete(OURS, "a")
    await documents.add(OURS, NewDocument("b", bytes(2 * 2**20), parent="a"))
    with pytest.raises(DocumentNotFound):
        await documents.renew(first)
    await documents.add(OURS, NewDocument("c", bytes(2 * 2**20)))


async def test_metadata_counts_when_it_is_replaced(documents: ProjectDocuments, store: DocumentStore) -> None:
    (stored,) = await documents.add(OURS, NewDocument("a", bytes(2**20)))
    with pytest.raises(StorageQuotaExceeded):
        await documents.set_metadata(OURS, "a", {"k": "v" * 2 * 2**20})
    assert await documents.find(OURS, "a") == stored
    await documents.set_metadata(OURS, "a", {"k": "\u00f3" * 1000})
    assert await store.stored_bytes("org-1", None) == stored.size + 2001
    await asyncio.gather(*(documents.set_metadata(OURS, "a", {}) for _ in range(9)))
    assert await store.stored_bytes("org-1", None) == stored.size
    deletions = [documents.delete(OURS, "a") for _ in range(4)]
    changes = [documents.set_metadata(OURS, "a", {"k": "v" * 100 * number}) for number in range(5)]
    await asyncio.gather(*deletions, *changes, return_exceptions=True)
    assert await used(documents) == 0


async def test_processes_that_erase_the_same_documents_give_them_back_once(
    documents: ProjectDocuments, clock: Clock
) -> None:
    sizes = (2**20, 2**18, 1000)
    await documents.add(OURS, *(NewDocument(f"{size}", bytes(size), parent="a") for size in sizes))
    before = await used(documents)
    clock.now += 30 * DAY
    await asyncio.gather(*(documents.delete_expired(9) for _ in range(9)))
    assert await documents.delete_expired(9) == 0
    assert 0 <= await used(documents) < before


async def used(documents: ProjectDocuments) -> int:
    """The bytes that are counted for the documents of the organisation."""
    await documents.quota.close()
    return await documents.quota.quotas.used(CountSubject(OURS.organisation))
