"""Accesses to documents in the chat are in the audit log, if administrators want that; otherwise nothing is written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from auth_billing.access.roles import Role
from auth_billing.audit_log import AuditEntry, Event
from tests.chat_ui.chat_clients import Person, Scene
from tests.chat_ui.http.test_collections import PASSAGES, create, stored, upload


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


def entries(scene: Scene) -> list[AuditEntry]:
    return scene.chats.organisation.audit_log.entries


async def switch(person: Person, *, on: bool, status: int = 200) -> Any:
    return await person.call("POST", "/admin/document-audit", {"enabled": on}, status=status)


async def test_administrators_have_accesses_recorded(scene: Scene) -> None:
    admin, ada = await scene.person(Role.ADMIN), await scene.person()
    assert await admin.call("GET", "/admin/document-audit") == {"enabled": False}
    assert await switch(admin, on=True) == {"enabled": True}
    assert await admin.call("GET", "/admin/document-audit") == {"enabled": True}
    change = scene.audit.entries[-1]
    assert (change.event, change.details) == (Event.DOCUMENT_AUDIT_UPDATED, {"enabled": True})
    id = await create(ada)
    file = (await upload(ada, id))["id"]
    await scene.chats.documents.import_next(PASSAGES)
    await ada.call("POST", f"/collections/{id}/search", {"query": "ile?"})
    await ada.call("GET", f"/collections/{id}/files/{file}/passages?first=1&limit=1")
    await ada.call("DELETE", f"/collections/{id}/files/{file}", status=204)
    await ada.call("DELETE", f"/collections/{id}", status=204)
    user = (await ada.call("GET", "/me"))["user"]
    in_collection = {"name": "umowa.pdf", "vector_store": id}
    assert [(each.event, each.target, dict(each.details)) for each in entries(scene)] == [
        (Event.DOCUMENT_UPLOADED, file, in_collection),
        (Event.DOCUMENT_READ, file, {**in_collection, "passages": 1}),
        (Event.DOCUMENT_DELETED, file, in_collection),
        (Event.VECTOR_STORE_DELETED, id, {"name": "Umowy", "person": user["id"]}),
    ]
    assert {(each.actor.user, each.actor.email, each.actor.address) for each in entries(scene)} == {
        (user["id"], user["email"], ada.browser.address)
    }
    assert scene.chats.documents.addresses == [ada.browser.address]  # the gateway records the search


async def test_members_do_not_switch_it_and_nothing_is_written_while_it_is_off(scene: Scene) -> None:
    ada = await scene.person()
    await switch(ada, on=True, status=403)
    await ada.call("GET", "/admin/document-audit", status=403)
    id = await create(ada)
    file = (await upload(ada, id))["id"]
    await ada.call("GET", f"/collections/{id}/files/{file}/passages")
    await ada.call("DELETE", f"/collections/{id}", status=204)
    assert (scene.chats.organisation.audit_log.writes, entries(scene)) == (0, [])


async def test_an_access_that_can_not_be_recorded_is_refused(scene: Scene) -> None:
    admin, ada = await scene.person(Role.ADMIN), await scene.person()
    await switch(admin, on=True)
    id = await create(ada)
    file = (await upload(ada, id))["id"]
    await scene.chats.documents.import_next(PASSAGES)
    scene.chats.organisation.audit_log.absence.away = True
    await ada.call("GET", f"/collections/{id}/files/{file}/passages", status=503)
    await ada.call("POST", f"/collections/{id}/files?name=b.pdf", b"%PDF", status=503)
    await ada.call("DELETE", f"/collections/{id}/files/{file}", status=503)
    await ada.call("DELETE", f"/collections/{id}", status=503)
    assert stored(scene) == 1
    assert [each["id"] for each in (await ada.call("GET", f"/collections/{id}/files"))["files"]] == [file]
