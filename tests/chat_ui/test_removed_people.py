"""What a removed person had or made ends at the removal: invitations, sessions, keys and share links."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from auth_billing.access.roles import Role
from auth_billing.people.sessions import CACHE_TTL
from tests.chat_ui.browser_client import Browser
from tests.chat_ui.chat_clients import Person, Scene
from tests.fakes.sessions import ORGANISATION


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


async def id_of(person: Person) -> str:
    """Return the id of a person's user."""
    return str((await person.call("GET", "/me"))["user"]["id"])


async def removed(scene: Scene, owner: Person, person: Person) -> str:
    """Remove a person, as the owner; return the id."""
    user = await id_of(person)
    scene.people.clock.now += 1
    await owner.call("DELETE", f"/people/{user}", status=204)
    return user


async def rejoined(scene: Scene, name: str, role: Role = Role.MEMBER) -> Browser:
    """Invite a person again, who accepts in a new browser."""
    scene.people.clock.now += 1
    browser = Browser(scene.app, address="10.8.0.1")
    assert (await browser.sign_up(await scene.people.invite(role), name)).status_code == 200
    return browser


async def sign_up_status(scene: Scene, token: str, name: str, address: str = "10.8.0.2") -> int:
    """Return the status of a sign-up with an invitation."""
    return (await Browser(scene.app, address=address).sign_up(token, name)).status_code


async def test_a_used_invitation_does_not_let_a_removed_member_back_in(scene: Scene) -> None:
    owner = await scene.person(Role.OWNER)
    token = await scene.people.invite(Role.ADMIN)
    eve = Browser(scene.app)
    assert (await eve.sign_up(token, "eve")).status_code == 200
    await removed(scene, owner, Person(eve))
    assert await sign_up_status(scene, token, "eve") == 404
    assert [each["email"] for each in (await owner.call("GET", "/people"))["people"]] == ["owner@example.org"]


async def test_an_invitation_is_used_once_by_a_member_too(scene: Scene) -> None:
    token = await scene.people.invite(Role.ADMIN)
    assert await sign_up_status(scene, token, "ada") == 200
    assert await sign_up_status(scene, token, "ada") == 404


async def test_other_invitations_to_a_removed_persons_address_are_revoked(scene: Scene) -> None:
    owner, eve = await scene.person(Role.OWNER), await scene.person(name="eve")
    spare = await owner.call("POST", "/invitations", {"role": "admin", "email": "EVE@example.org"}, status=201)
    other = await owner.call("POST", "/invitations", {"role": "member", "email": "bob@example.org"}, status=201)
    await removed(scene, owner, eve)
    assert await sign_up_status(scene, spare["token"], "eve") == 404
    assert await sign_up_status(scene, other["token"], "bob") == 200


async def test_invitations_of_a_removed_administrator_are_revoked_for_good(scene: Scene) -> None:
    owner, eve = await scene.person(Role.OWNER), await scene.person(Role.ADMIN, "eve")
    made = await eve.call("POST", "/invitations", {"role": "admin"}, status=201)
    await removed(scene, owner, eve)
    statuses = {each["id"]: each["status"] for each in (await owner.call("GET", "/invitations"))["invitations"]}
    assert statuses[made["id"]] == "revoked"
    assert await sign_up_status(scene, made["token"], "mallory") == 404
    await rejoined(scene, "eve", Role.ADMIN)
    assert await sign_up_status(scene, made["token"], "mallory") == 404


@pytest.mark.parametrize(("role", "status"), [("admin", 200), ("member", 404), ("viewer", 404)])
async def test_an_invitation_needs_an_inviter_who_may_still_give_its_role(scene: Scene, role: str, status: int) -> None:
    owner, eve = await scene.person(Role.OWNER), await scene.person(Role.ADMIN, "eve")
    made = await eve.call("POST", "/invitations", {"role": "viewer"}, status=201)
    await owner.call("PATCH", f"/people/{await id_of(eve)}", {"role": role})
    assert await sign_up_status(scene, made["token"], "mallory") == status


async def test_an_invitation_to_own_is_void_once_its_inviter_is_no_owner(scene: Scene) -> None:
    owner, eve = await scene.person(Role.OWNER), await scene.person(Role.OWNER, "eve")
    made = await eve.call("POST", "/invitations", {"role": "owner"}, status=201)
    await owner.call("PATCH", f"/people/{await id_of(eve)}", {"role": "admin"})
    assert await sign_up_status(scene, made["token"], "mallory") == 404


LIMITS = ("requests_per_minute", "tokens_per_minute", "requests_per_day", "concurrent_requests")
CHANGES: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/invitations", {"role": "admin"}),
    ("POST", "/admin/keys", {"project": f"proj_{ORGANISATION}", "name": "k"}),
    ("POST", "/admin/projects", {"name": "p"}),
    ("PATCH", "/people/{accomplice}", {"role": "admin"}),
    ("POST", "/admin/budgets", {"name": "organisation", "limit_nano": None}),
    ("POST", "/admin/rate_limits", {"subject": "organisation", **dict.fromkeys(LIMITS)}),
    ("POST", "/conversations", {"settings": {"model": ""}}),
    ("POST", "/conversations/{conversation}/share", None),
    ("POST", "/conversations/{conversation}/messages", {"text": "Hi"}),
)


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_a_removed_person_changes_nothing_through_another_gateways_cache(
    scene: Scene, method: str, path: str, body: Any
) -> None:
    owner, eve, accomplice = [await scene.person(*each) for each in ((Role.OWNER,), (Role.ADMIN, "eve"), ())]
    names = {"conversation": await eve.conversation(), "accomplice": await id_of(accomplice)}
    eve.browser.move_to(scene.gateway())
    await removed(scene, owner, eve)  # who is cached now at the second gateway
    refused = await eve.call(method, path.format(**names), body, status=401)
    assert refused["error"]["code"] == "not_signed_in"
    scene.people.clock.now += CACHE_TTL
    await eve.call("GET", "/me", status=401)


async def test_sessions_from_before_a_removal_stay_ended(scene: Scene) -> None:
    owner, eve = await scene.person(Role.OWNER), await scene.person(name="eve")
    await removed(scene, owner, eve)
    new = await rejoined(scene, "eve")
    scene.people.clock.now += CACHE_TTL
    await eve.call("GET", "/me", status=401)
    await eve.call("POST", "/session/refresh", status=401)
    assert (await new.get("/me")).status_code == 200


async def test_share_links_of_a_removed_person_show_nothing(scene: Scene) -> None:
    owner, eve = await scene.person(Role.OWNER), await scene.person(name="eve")
    conversation = await eve.conversation()
    await eve.answered(conversation, "The secret question")
    shared = (await eve.call("POST", f"/conversations/{conversation}/share", status=201))["token"]
    reader = Person(Browser(scene.app, address="10.8.0.3"))
    assert "secret" in str(await reader.call("GET", f"/shared/{shared}"))
    await removed(scene, owner, eve)
    missing = await reader.call("GET", f"/shared/{'x' * 43}", status=404)
    assert await reader.call("GET", f"/shared/{shared}", status=404) == missing
    back = Person(await rejoined(scene, "eve"))
    await reader.call("GET", f"/shared/{shared}", status=404)
    again = (await back.call("POST", f"/conversations/{conversation}/share", status=201))["token"]
    assert "secret" in str(await reader.call("GET", f"/shared/{again}"))


async def test_a_member_who_leaves_is_recorded(scene: Scene) -> None:
    await scene.person(Role.OWNER)
    admin = await scene.person(Role.ADMIN)
    user = await id_of(admin)
    await admin.call("DELETE", f"/people/{user}", status=204)
    (entry,) = [each for each in scene.audit.entries if each.event.value == "user.deleted"]
    assert (entry.target, entry.actor.user, entry.actor.email) == (user, user, "admin@example.org")
