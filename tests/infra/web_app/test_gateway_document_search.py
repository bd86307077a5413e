"""Documents of the chat over a real gateway: uploaded as a person, imported as that person, searched, refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from auth_billing.access.principal import Principal
from auth_billing.audit_log import AuditActor, Event
from auth_billing.errors import NoSuchRecord
from auth_billing.people.organisation_records import Organisation
from chat_ui.errors import Busy, NoEmbedder, SearchRefused
from gateway.errors import Overloaded
from infra.web_app.gateway_document_search import GatewayDocumentSearch
from stored_objects.files.files import Purpose
from stored_objects.objects.records import ObjectOwner, StoredObject
from stored_objects.vector_stores.access import StoreScope
from stored_objects.vector_stores.records import FileState, PageQuery, VectorStore, VectorStoreFile
from tests.gateway.conftest import stage
from tests.gateway.vector_stores.library import CATS, DOGS, Library, library

ADA = Principal(key_id="", tenant="tenant-1", cache_salt="salt-1", project="project-1", user="user-ada")
ADDRESS = "192.0.2.7"


@pytest.fixture
async def shelf() -> AsyncIterator[Library]:
    async with library() as made:
        yield made


def search_of(shelf: Library) -> GatewayDocumentSearch:
    return GatewayDocumentSearch(shelf.stage.gateway, shelf.stage.app)


async def uploaded(shelf: Library, content: bytes, name: str) -> StoredObject:
    files = shelf.stage.gateway.files
    async with files.pending(ObjectOwner(ADA.tenant, ADA.user), len(content)) as pending:
        written = await files.objects.write(pending, _chunks(content))
        return await files.finish(written, pending, name=name, purpose=Purpose.ASSISTANTS, lifetime=None)


async def _chunks(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def imported(shelf: Library, store: VectorStore) -> list[VectorStoreFile]:
    async with asyncio.timeout(60):
        while True:
            page = await shelf.stage.gateway.vector_stores.page_files(store, PageQuery(10, "asc"))
            if all(each.state is not FileState.IN_PROGRESS for each in page.items):
                return page.items
            await asyncio.sleep(0.02)


async def test_uploaded_files_are_imported_as_the_person_and_found(shelf: Library) -> None:
    search = search_of(shelf)
    store = await search.create(ADA, "pets", StoreScope.PERSON)
    for name, content in (("dogs.md", DOGS), ("cats.md", CATS)):
        await search.add(ADA, store, await uploaded(shelf, content, name))
    files = await imported(shelf, store)
    assert [(each.name, each.state) for each in files] == [
        ("dogs.md", FileState.COMPLETED),
        ("cats.md", FileState.COMPLETED),
    ]
    first, *_ = await search.search(ADA, store, "kennel", 5, address=ADDRESS)
    assert (first.file, first.name, first.number, first.page) == (files[0].file, "dogs.md", 0, None)
    assert "kennel" in first.text
    assert first.heading_path == ["Dogs"]
    assert 0 < first.score <= 1
    assert len(await search.search(ADA, store, "kot pies", 1, address=ADDRESS)) == 1
    response = await shelf.client.get("/v1/files")
    assert response.json()["data"] == []  # they are the person's, not the project's


async def test_a_search_is_recorded_once_with_person_and_address(shelf: Library) -> None:
    organisation = shelf.stage.organisation
    await organisation.accounts.ensure_organisation(Organisation(ADA.tenant, "Ours", 1.0, audits_documents=True))
    search = search_of(shelf)
    store = await search.create(ADA, "pets", StoreScope.PERSON)
    await search.search(ADA, store, "kennel", 5, address=ADDRESS)
    (entry,) = organisation.audit_log.entries
    assert (entry.event, entry.target, entry.details["passages"]) == (Event.VECTOR_STORE_SEARCHED, store.id, 0)
    assert entry.actor == AuditActor(user=ADA.user, address=ADDRESS)


async def test_a_file_of_a_person_who_has_left_is_not_imported(shelf: Library) -> None:
    search = search_of(shelf)
    store = await search.create(ADA, "pets", StoreScope.PERSON)
    shelf.stage.accounts.revoked.add(ADA.user)
    await search.add(ADA, store, await uploaded(shelf, DOGS, "dogs.md"))
    (file,) = await imported(shelf, store)
    assert file.failure is not None
    assert "no member" in file.failure.message


def refuse() -> None:
    raise Overloaded("loop_lag", 1)


async def test_refusals_are_the_chats(shelf: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    search = search_of(shelf)
    store = await search.create(ADA, "pets", StoreScope.PERSON)
    with pytest.raises(NoSuchRecord):
        await search.search(replace(ADA, user="user-bob"), store, "x", 5, address=ADDRESS)
    with pytest.raises(SearchRefused):
        await search.search(replace(ADA, scopes=frozenset()), store, "x", 5, address=ADDRESS)
    monkeypatch.setattr(shelf.stage.gateway.protection, "check", refuse)
    with pytest.raises(Busy):
        await search.search(ADA, store, "x", 5, address=ADDRESS)
    with pytest.raises(NoEmbedder):
        await search.add(ADA, replace(store, embedder="org/gone"), await uploaded(shelf, DOGS, "dogs.md"))


async def test_without_an_embedding_model_there_are_no_collections() -> None:
    async with stage() as without:
        with pytest.raises(NoEmbedder):
            await GatewayDocumentSearch(without.gateway, without.app).create(ADA, "pets", StoreScope.PERSON)
