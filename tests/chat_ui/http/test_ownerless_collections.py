"""Administrators list the collections of people who have left, and delete them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from auth_billing.access.roles import Role
from auth_billing.audit_log import Event
from chat_ui.http.routes.admin import collections as routes
from tests.chat_ui.chat_clients import Scene
from tests.chat_ui.http.test_collections import PASSAGES, create, stored, upload
from tests.chat_ui.test_removed_people import removed


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


async def test_a_collection_of_a_removed_person_is_listed_and_deleted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "COLLECTIONS_SHOWN", 1)
    owner, eve = await scene.person(Role.OWNER), await scene.person(name="eve")
    kept, first, last = await create(owner), await create(eve, "Umowy"), await create(eve, "Notatki")
    await upload(eve, first)
    await scene.chats.documents.import_next(PASSAGES)
    assert (await owner.call("GET", "/admin/collections"))["collections"] == []
    user = await removed(scene, owner, eve)
    page = await owner.call("GET", "/admin/collections")
    assert ([each["id"] for each in page["collections"]], page["has_more"]) == ([last], True)
    (shown,) = (await owner.call("GET", f"/admin/collections?after={last}"))["collections"]
    assert (shown["id"], shown["name"], shown["person"], shown["files"]) == (first, "Umowy", "eve@example.org", 1)
    assert shown["size"] > 0
    await owner.call("GET", f"/admin/collections?after={kept}", status=400)
    await owner.call("DELETE", f"/admin/collections/{kept}", status=404)
    await owner.call("DELETE", f"/admin/collections/{first}", status=204)
    await owner.call("DELETE", f"/admin/collections/{first}", status=404)
    assert (stored(scene), scene.chats.documents.stores.passages.sets) == (0, {})  # type: ignore[attr-defined]
    entry = scene.audit.entries[-1]
    assert (entry.event, entry.target) == (Event.VECTOR_STORE_DELETED, first)
    assert entry.details == {"name": "Umowy", "person": user}
    assert [each["id"] for each in (await owner.call("GET", "/collections"))["collections"]] == [kept]


async def test_members_and_other_organisations_do_neither(scene: Scene) -> None:
    owner, eve, bob = await scene.person(Role.OWNER), await scene.person(name="eve"), await scene.person(name="bob")
    other = await scene.person(Role.OWNER, "mallory", "org-other")
    id = await create(eve)
    await removed(scene, owner, eve)
    await bob.call("GET", "/admin/collections", status=403)
    await bob.call("DELETE", f"/admin/collections/{id}", status=403)
    assert (await other.call("GET", "/admin/collections"))["collections"] == []
    await other.call("DELETE", f"/admin/collections/{id}", status=404)
    assert len((await owner.call("GET", "/admin/collections"))["collections"]) == 1
