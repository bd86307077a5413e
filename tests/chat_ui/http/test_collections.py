"""Collections of documents: created, filled, searched, read and deleted by people of their project."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from auth_billing.access.roles import Role
from chat_ui.document_search import PassageHit
from chat_ui.errors import NoEmbedder
from chat_ui.http.routes import collections as routes
from documents.content import Passage
from stored_objects.errors import StorageQuotaExceeded
from stored_objects.vector_stores.records import ImportFailure
from tests.chat_ui.chat_clients import Person, Scene
from tests.fakes.stored_objects import DictObjectStore

PASSAGES = [
    Passage("# Umowa\n\nCzynsz wynosi 700 euro.", 1, ("Umowa",), 0, 32, 9),
    Passage("| A |\n| --- |\n| 2 |", 2, ("Umowa", "Tabela"), 40, 45, 9),
]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


async def create(person: Person, name: str = "Umowy") -> str:
    return str((await person.call("POST", "/collections", {"name": name}, status=201))["id"])


async def upload(person: Person, collection: str, name: str = "umowa.pdf", content: bytes = b"%PDF") -> Any:
    return await person.call("POST", f"/collections/{collection}/files?name={name}", content, status=201)


async def test_a_file_is_uploaded_followed_searched_and_read(scene: Scene) -> None:
    ada = await scene.person()
    id = await create(ada, " Umowy ")
    file = await upload(ada, id)
    assert (file["name"], file["state"], file["problem"]) == ("umowa.pdf", "in_progress", None)
    (shown,) = (await ada.call("GET", "/collections"))["collections"]
    assert (shown["name"], shown["in_progress"], shown["completed"]) == ("Umowy", 1, 0)
    assert await scene.chats.documents.import_next(PASSAGES) == file["id"]
    page = await ada.call("GET", f"/collections/{id}/files")
    assert (page["collection"]["completed"], page["has_more"]) == (1, False)
    assert [each["state"] for each in page["files"]] == ["completed"]
    found = PassageHit(file["id"], "umowa.pdf", 1, "700 euro", 1, ["Umowa"], 0.75)
    scene.chats.documents.found = [found]
    (passage,) = (await ada.call("POST", f"/collections/{id}/search", {"query": "ile?"}))["passages"]
    assert passage == vars(found)
    assert scene.chats.documents.asked == [(id, "ile?")]
    text = await ada.call("GET", f"/collections/{id}/files/{file['id']}/passages?first=1&limit=1")
    assert (text["collection"], text["name"], text["has_more"]) == ("Umowy", "umowa.pdf", False)
    assert text["passages"] == [
        {"number": 1, "text": "| 2 |", "start": 40, "end": 45, "page": 2, "heading_path": ["Umowa", "Tabela"]}
    ]
    assert (await ada.call("GET", f"/collections/{id}/files/{file['id']}/passages?limit=1"))["has_more"] is True


async def test_passages_of_several_blocks_are_read_in_ranges(scene: Scene) -> None:
    ada = await scene.person()
    id = await create(ada)
    file = (await upload(ada, id))["id"]
    many = [Passage(str(number), None, (), 4 * number, 4 * number + len(str(number)), 1) for number in range(150)]
    await scene.chats.documents.import_next(many)
    for first, limit, numbers, has_more in ((60, 10, range(60, 70), True), (140, 40, range(140, 150), False)):
        read = await ada.call("GET", f"/collections/{id}/files/{file}/passages?first={first}&limit={limit}")
        assert [(each["number"], each["text"]) for each in read["passages"]] == [(each, str(each)) for each in numbers]
        assert read["has_more"] is has_more


async def test_a_broken_file_is_named_with_its_reason(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "FILES_SHOWN", 1)
    ada = await scene.person()
    id = await create(ada)
    broken = (await upload(ada, id, "a.pdf"))["id"]
    last = (await upload(ada, id, "b.pdf"))["id"]
    await scene.chats.documents.import_next(ImportFailure("invalid_file", "The file is encrypted."))
    (failed,) = (await ada.call("GET", f"/collections/{id}/files?failed=true"))["files"]
    assert (failed["id"], failed["problem"], failed["reason"]) == (broken, "invalid_file", "The file is encrypted.")
    page = await ada.call("GET", f"/collections/{id}/files")
    assert ([each["id"] for each in page["files"]], page["has_more"]) == ([last], True)
    rest = await ada.call("GET", f"/collections/{id}/files?after={last}")
    assert ([each["id"] for each in rest["files"]], rest["has_more"]) == ([broken], False)
    await ada.call("GET", f"/collections/{id}/files?after=file-none", status=400)
    assert (await ada.call("GET", f"/collections/{id}/files/{broken}/passages"))["passages"] == []


async def test_deletion_erases_what_was_uploaded(scene: Scene) -> None:
    ada = await scene.person()
    id = await create(ada)
    first = (await upload(ada, id, "a.pdf"))["id"]
    await upload(ada, id, "b.pdf")
    assert stored(scene) == 2
    await ada.call("DELETE", f"/collections/{id}/files/{first}", status=204)
    await ada.call("DELETE", f"/collections/{id}/files/{first}", status=404)
    assert stored(scene) == 1
    await ada.call("DELETE", f"/collections/{id}", status=204)
    assert stored(scene) == 0
    assert (await ada.call("GET", "/collections"))["collections"] == []
    await ada.call("GET", f"/collections/{id}/files", status=404)


def stored(scene: Scene) -> int:
    """Return the number of stored objects."""
    objects = scene.chats.objects.documents
    assert isinstance(objects, DictObjectStore)
    return len(objects.records)


async def test_other_organisations_and_viewers_find_nothing(scene: Scene) -> None:
    ada, eve = await scene.person(), await scene.person(Role.OWNER, "eve", "org-other")
    id = await create(ada)
    file = (await upload(ada, id))["id"]
    assert (await eve.call("GET", "/collections"))["collections"] == []
    for method, path, body in (
        ("GET", "/files", None),
        ("PATCH", "", {"name": "mine"}),
        ("POST", "/search", {"query": "x"}),
        ("POST", "/files?name=a.pdf", b"x"),
        ("GET", f"/files/{file}/passages", None),
        ("DELETE", f"/files/{file}", None),
        ("DELETE", "", None),
    ):
        await eve.call(method, f"/collections/{id}{path}", body, status=404)
    await (await scene.person(Role.VIEWER)).call("GET", "/collections", status=403)


async def test_a_collection_is_renamed(scene: Scene) -> None:
    ada = await scene.person()
    id = await create(ada)
    assert (await ada.call("PATCH", f"/collections/{id}", {"name": "Najem"}))["name"] == "Najem"
    for name in ("", "x" * 101):
        await ada.call("PATCH", f"/collections/{id}", {"name": name}, status=400)


async def test_collections_are_listed_in_pages(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "COLLECTIONS_SHOWN", 2)
    ada, bob = await scene.person(name="ada"), await scene.person(name="bob")
    ids = [await create(ada) for _ in range(3)]
    others = await create(bob)
    first = await ada.call("GET", "/collections")
    listed = [each["id"] for each in first["collections"]]
    assert first["has_more"] is True
    rest = await ada.call("GET", f"/collections?after={listed[-1]}")
    assert sorted([*listed, *(each["id"] for each in rest["collections"])]) == sorted(ids)
    assert rest["has_more"] is False
    for id in (others, "vs_none"):
        await ada.call("GET", f"/collections?after={id}", status=400)


async def test_an_upload_to_a_collection_that_is_deleted_meanwhile_leaves_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await scene.person()
    id = await create(ada)
    add = scene.chats.documents.add

    async def add_late(*given: Any) -> None:
        await ada.call("DELETE", f"/collections/{id}", status=204)
        await add(*given)

    monkeypatch.setattr(scene.chats.documents, "add", add_late)
    await ada.call("POST", f"/collections/{id}/files?name=a.pdf", b"x", status=404)
    assert stored(scene) == 0


async def test_without_an_embedding_model_an_upload_leaves_nothing(scene: Scene) -> None:
    ada = await scene.person()
    id = await create(ada)
    await ada.call("POST", f"/collections/{id}/files?name=a.pdf", b"", status=400)
    scene.chats.documents.error = NoEmbedder("none is served")
    refused = await ada.call("POST", f"/collections/{id}/files?name=a.pdf", b"x", status=409)
    assert refused["error"]["code"] == "no_embedding_model"
    assert stored(scene) == 0
    await ada.call("POST", "/collections", {"name": "another"}, status=409)


async def test_a_full_project_refuses_collections_and_files(scene: Scene) -> None:
    ada = await scene.person()
    id = await create(ada)
    scene.chats.documents.error = StorageQuotaExceeded(10, 10, 2**20, shared=False)
    for path, body in (("/collections", {"name": "another"}), (f"/collections/{id}/files?name=a.pdf", b"x")):
        refused = await ada.call("POST", path, body, status=409)
        assert refused["error"]["code"] == "storage_full"
    assert stored(scene) == 0
