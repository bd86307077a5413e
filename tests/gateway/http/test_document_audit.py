"""Each access to a document by the API is in the audit log before it takes effect, if the organisation wants that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from auth_billing.audit_log import AuditEntry, Event
from auth_billing.people.organisation_records import Organisation
from tests.gateway.conftest import MODEL
from tests.gateway.http.routes.test_responses import answer
from tests.gateway.test_in_process import answer_from
from tests.gateway.vector_stores.library import CATS, DOGS, Library, library

ORGANISATION, PROJECT = "tenant-1", "project-1"


@pytest.fixture
async def shelf(request: pytest.FixtureRequest) -> AsyncIterator[Library]:
    """A gateway of an organisation that has accesses recorded, unless the test's parameter says otherwise."""
    on = getattr(request, "param", True)
    async with library(answer({"text": "It barks [1]."})) as made:
        accounts = made.stage.organisation.accounts
        await accounts.ensure_organisation(Organisation(ORGANISATION, "Ours", 1.0, audits_documents=on))
        yield made


def entries(shelf: Library) -> list[AuditEntry]:
    return shelf.stage.organisation.audit_log.entries


def last(shelf: Library) -> tuple[Event, str, dict[str, Any]]:
    """Return event, target and details of the last entry."""
    entry = entries(shelf)[-1]
    assert (entry.organisation, entry.project, entry.actor.key_id) == (ORGANISATION, PROJECT, "key-1")
    return entry.event, entry.target, dict(entry.details)


async def test_files_are_recorded_from_the_upload_to_the_deletion(shelf: Library) -> None:
    file = await shelf.upload(DOGS, "dogs.md")
    name = {"name": "dogs.md"}
    assert last(shelf) == (Event.DOCUMENT_UPLOADED, file, name)
    assert entries(shelf)[-1].actor.address == "127.0.0.1"
    store = (await shelf.post("", {"file_ids": [file]}))["id"]
    in_store = {**name, "vector_store": store}
    assert last(shelf) == (Event.DOCUMENT_UPLOADED, file, in_store)
    await shelf.imported(store)
    content = await shelf.get(f"/{store}/files/{file}/content")
    assert last(shelf) == (Event.DOCUMENT_READ, file, {**in_store, "passages": len(content["data"])})
    assert (await shelf.client.get(f"/v1/files/{file}/content")).content == DOGS
    assert last(shelf) == (Event.DOCUMENT_DOWNLOADED, file, name)
    part = {"type": "file", "file": {"file_id": file}}
    chat = {"model": MODEL, "messages": [{"role": "user", "content": [part]}], "max_tokens": 5}
    assert (await shelf.client.post("/v1/chat/completions", json=chat)).status_code == 200
    assert last(shelf) == (Event.DOCUMENT_READ, file, {})
    await shelf.client.delete(f"/v1/vector_stores/{store}/files/{file}")
    assert last(shelf) == (Event.DOCUMENT_DELETED, file, in_store)
    await shelf.post(f"/{store}/files", {"file_id": file})
    assert last(shelf) == (Event.DOCUMENT_UPLOADED, file, in_store)
    await shelf.client.delete(f"/v1/files/{file}")
    assert last(shelf) == (Event.DOCUMENT_DELETED, file, name)
    await shelf.client.delete(f"/v1/vector_stores/{store}")
    assert last(shelf) == (Event.VECTOR_STORE_DELETED, store, {"name": "", "person": ""})


async def test_uploads_in_parts_and_batches_are_recorded_file_by_file(shelf: Library) -> None:
    whole = {"filename": "cats.md", "purpose": "assistants", "bytes": len(CATS), "mime_type": "text/markdown"}
    upload = (await shelf.client.post("/v1/uploads", json=whole)).json()["id"]
    part = (await shelf.client.post(f"/v1/uploads/{upload}/parts", files={"data": ("a", CATS)})).json()["id"]
    made = (await shelf.client.post(f"/v1/uploads/{upload}/complete", json={"part_ids": [part]})).json()["file"]
    assert last(shelf) == (Event.DOCUMENT_UPLOADED, made["id"], {"name": "cats.md"})
    files = [made["id"], await shelf.upload(DOGS, "dogs.md")]
    store = (await shelf.post(""))["id"]
    writes, before = shelf.stage.organisation.audit_log.writes, len(entries(shelf))
    await shelf.post(f"/{store}/file_batches", {"file_ids": files})
    assert shelf.stage.organisation.audit_log.writes == writes + 1
    added = [(each.event, each.target, each.details["vector_store"]) for each in entries(shelf)[before:]]
    assert added == [(Event.DOCUMENT_UPLOADED, file, store) for file in files]


async def test_searches_are_recorded_for_each_vector_store_in_one_write(shelf: Library) -> None:
    store, other = await shelf.create(DOGS, CATS, name="pets"), await shelf.create(CATS)
    log = shelf.stage.organisation.audit_log
    writes = log.writes
    found = await shelf.search(store["id"], "pies")
    event, target, details = last(shelf)
    assert (event, target, details["name"]) == (Event.VECTOR_STORE_SEARCHED, store["id"], "pets")
    assert details["passages"] == len(found) > 0
    assert f"1 {found[0]['file_id']} 0.md" in details["files"]
    assert "pies" not in str(entries(shelf))
    assert log.writes == writes + 1
    tool = {"type": "file_search", "vector_store_ids": [store["id"], other["id"]]}
    body = {"model": MODEL, "input": "How is the dog?", "tools": [tool], "tool_choice": {"type": "file_search"}}
    assert (await shelf.client.post("/v1/responses", json=body)).status_code == 200
    assert log.writes == writes + 2
    searched = {each.target: each for each in entries(shelf)[-2:]}
    assert searched.keys() == {store["id"], other["id"]}
    assert {each.event for each in searched.values()} == {Event.VECTOR_STORE_SEARCHED}
    assert searched[store["id"]].details["passages"] != 0


async def test_answers_of_the_chat_are_recorded_with_their_person(shelf: Library) -> None:
    store = await shelf.create(DOGS)
    async with answer_from(shelf, "How is the dog?", store["id"]) as updates:
        assert updates
    entry = entries(shelf)[-1]
    assert (entry.event, entry.target) == (Event.VECTOR_STORE_SEARCHED, store["id"])
    assert (entry.actor.user, entry.actor.key_id) == ("user-ada", "")


@pytest.mark.parametrize("shelf", [False], indirect=True)
async def test_nothing_is_written_unless_the_organisation_wants_it(shelf: Library) -> None:
    store = await shelf.create(DOGS)
    await shelf.search(store["id"], "pies")
    await shelf.client.delete(f"/v1/vector_stores/{store['id']}")
    assert (shelf.stage.organisation.audit_log.writes, entries(shelf)) == (0, [])


async def test_an_access_that_can_not_be_recorded_is_refused(shelf: Library) -> None:
    store = await shelf.create(DOGS)
    (file,) = (await shelf.get(f"/{store['id']}/files"))["data"]
    shelf.stage.organisation.audit_log.absence.away = True
    path = f"/v1/vector_stores/{store['id']}"
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", f"{path}/search", {"json": {"query": "pies"}}),
        ("GET", f"{path}/files/{file['id']}/content", {}),
        ("GET", f"/v1/files/{file['id']}/content", {}),
        ("DELETE", f"{path}/files/{file['id']}", {}),
        ("DELETE", f"/v1/files/{file['id']}", {}),
        ("DELETE", path, {}),
        ("POST", "/v1/files", {"data": {"purpose": "assistants"}, "files": {"file": ("b.md", CATS)}}),
        ("POST", "/v1/vector_stores", {"json": {"file_ids": [file["id"]]}}),
    ]
    for method, target, fields in requests:
        refused = await shelf.client.request(method, target, **fields)
        assert (refused.status_code, "kennel" in refused.text) == (503, False), target
    shelf.stage.organisation.audit_log.absence.away = False
    assert len((await shelf.client.get("/v1/files")).json()["data"]) == 1
    assert [each["id"] for each in (await shelf.get(""))["data"]] == [store["id"]]
    assert len(await shelf.search(store["id"], "pies")) > 0
