"""Rights to collections: what a person may not read is not listed, searched or found, and a right can be taken away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from auth_billing.access.roles import Role
from auth_billing.audit_log import Event
from auth_billing.people.organisation_records import Project
from auth_billing.people.sessions import CACHE_TTL
from chat_ui.http.routes import collection_readers
from documents.content import Passage
from tests.chat_ui.chat_clients import Person, Scene
from tests.fakes.sessions import ORGANISATION


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


async def create(person: Person, scope: str = "person") -> str:
    return str((await person.call("POST", "/collections", {"name": "Umowy", "scope": scope}, status=201))["id"])


async def fill(scene: Scene, person: Person, collection: str) -> str:
    await person.call("POST", f"/collections/{collection}/files?name=a.txt", b"text", status=201)
    return await scene.chats.documents.import_next([Passage("text", None, (), 0, 4, 1)])


async def listed(person: Person) -> list[Any]:
    found: list[Any] = (await person.call("GET", "/collections"))["collections"]
    return found


async def share(person: Person, collection: str, status: int = 200, **reader: str) -> Any:
    return await person.call("POST", f"/collections/{collection}/readers", reader, status=status)


READS: list[tuple[str, str, Any]] = [
    ("GET", "/files", None),
    ("POST", "/search", {"query": "x"}),
    ("GET", "/files/{file}/passages", None),
]
CHANGES: list[tuple[str, str, Any]] = [
    ("PATCH", "", {"name": "mine"}),
    ("POST", "/files?name=b.txt", b"x"),
    ("GET", "/readers", None),
    ("POST", "/readers", {"reader": "organisation"}),
    ("DELETE", "/readers/organisation", {}),
    ("DELETE", "/files/{file}", {}),
    ("DELETE", "", {}),
]


async def test_a_persons_collection_is_hers_until_she_shares_it(scene: Scene) -> None:
    ada, bob, carl = [await scene.person(name=name) for name in ("ada", "bob", "carl")]
    id = await create(ada)
    file = await fill(scene, ada, id)

    async def expect_status(person: Person, calls: list[tuple[str, str, Any]], status: int) -> None:
        for method, path, body in calls:
            await person.call(method, f"/collections/{id}{path.format(file=file)}", body, status=status)

    await expect_status(bob, READS + CHANGES, 404)
    assert await listed(bob) == []
    readers = await share(ada, id, reader="person", email="BOB@example.org")
    assert [each["email"] for each in readers["people"]] == ["bob@example.org"]
    await expect_status(bob, READS, 200)
    await expect_status(bob, CHANGES, 403)
    await expect_status(carl, READS + CHANGES, 404)
    (shown,) = await listed(bob)
    assert (shown["scope"], shown["person"], shown["may_change"], shown["completed"]) == ("person", "ada", False, 1)
    (own,) = await listed(ada)
    assert (own["person"], own["may_change"], own["is_shared"]) == (None, True, True)
    await ada.call("DELETE", f"/collections/{id}/readers/{readers['people'][0]['id']}", {}, status=204)
    await expect_status(bob, READS + CHANGES, 404)
    assert await listed(bob) == []
    events = [each.event for each in scene.audit.entries if each.target == id]
    assert events == [Event.VECTOR_STORE_SHARED, Event.VECTOR_STORE_UNSHARED]


@pytest.mark.parametrize("reader", ["project", "organisation"])
async def test_a_collection_is_shared_with_project_or_organisation(scene: Scene, reader: str) -> None:
    ada, bob = await scene.person(name="ada"), await scene.person(name="bob")
    eve = await scene.person(Role.OWNER, "eve", "org-other")
    id = await create(ada)
    assert (await share(ada, id, reader=reader))[reader] is True
    assert [each["id"] for each in await listed(bob)] == [id]
    assert await listed(eve) == []
    await ada.call("DELETE", f"/collections/{id}/readers/{reader}", {}, status=204)
    assert await listed(bob) == []
    assert [each["is_shared"] for each in await listed(ada)] == [False]


async def test_a_collection_of_the_organisation_is_shared_in_the_audit_log_from_its_creation(scene: Scene) -> None:
    ada = await scene.person()
    ids = [await create(ada, scope) for scope in ("person", "project", "organisation")]
    shared = [(each.target, each.details) for each in scene.audit.entries if each.event == Event.VECTOR_STORE_SHARED]
    assert shared == [(ids[2], {"reader": "organisation"})]


async def test_a_person_keeps_the_rights_to_her_collections_when_the_project_is_archived(scene: Scene) -> None:
    ada, bob = await scene.person(name="ada"), await scene.person(name="bob")
    mine, ours = await create(ada), await create(ada, "project")
    file, other = await fill(scene, ada, mine), await fill(scene, ada, mine)
    accounts = scene.people.accounts
    await accounts.ensure_project(Project("proj-new", ORGANISATION, "New", scene.people.clock()))
    await accounts.archive_project(ORGANISATION, f"proj_{ORGANISATION}", scene.people.clock())
    scene.people.clock.now += CACHE_TTL
    assert [(each["id"], each["may_change"]) for each in await listed(ada)] == [(mine, True)]
    await fill(scene, ada, mine)
    await ada.call("DELETE", f"/collections/{mine}/files/{file}", {}, status=204)
    await ada.call("PATCH", f"/collections/{mine}", {"name": "Najem"})
    assert (await share(ada, mine, reader="project"))["project"] is True
    assert [(each["id"], each["may_change"]) for each in await listed(bob)] == [(mine, False)]
    await accounts.archive_project(ORGANISATION, "proj-new", scene.people.clock())
    scene.people.clock.now += CACHE_TTL
    assert await listed(bob) == []
    assert [each["name"] for each in await listed(ada)] == ["Najem"]
    await share(ada, mine, 400, reader="project")
    await ada.call("POST", f"/collections/{mine}/search", {"query": "x"}, status=403)  # no project pays for it
    await ada.call("DELETE", f"/collections/{mine}/files/{other}", {}, status=204)
    await ada.call("DELETE", f"/collections/{mine}", {}, status=204)
    await ada.call("DELETE", f"/collections/{ours}", {}, status=404)


async def test_members_fill_the_projects_collections(scene: Scene) -> None:
    ada, bob = await scene.person(name="ada"), await scene.person(name="bob")
    for scope in ("project", "organisation"):
        id = await create(ada, scope)
        await fill(scene, bob, id)
        (shown, *_) = await listed(bob)
        assert (shown["scope"], shown["may_change"], shown["person"]) == (scope, True, None)
        await bob.call("DELETE", f"/collections/{id}/readers/project", {}, status=204)
        assert id in [each["id"] for each in await listed(ada)]  # its owner keeps the right


async def test_only_members_get_the_right(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = await scene.person(name="ada")
    await scene.person(Role.OWNER, "eve", "org-other")
    await scene.person(name="bob")
    id = await create(ada)
    for email in ("eve@example.org", "none@example.org"):
        refused = await share(ada, id, 404, reader="person", email=email)
        assert refused["error"]["code"] == "no_such_member"
    await share(ada, id, 400, reader="person", email="no address")
    await share(ada, id, 400, reader="unknown")
    monkeypatch.setattr(collection_readers, "MAX_READERS", 0)
    assert "people at most" in (await share(ada, id, 400, reader="person", email="bob@example.org"))["error"]["message"]
