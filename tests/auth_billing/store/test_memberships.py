"""Memberships in MongoDB and in memory."""

from __future__ import annotations

from dataclasses import replace

from auth_billing.access.roles import Role
from auth_billing.people.people_records import Membership
from tests.auth_billing.store.conftest import PeopleStores


async def test_memberships_are_listed_changed_and_removed(people: PeopleStores) -> None:
    first = Membership("org-1", "user-ada", Role.OWNER, 1.0)
    second = Membership("org-1", "user-bob", Role.MEMBER, 2.0)
    elsewhere = Membership("org-2", "user-ada", Role.VIEWER, 3.0)
    for each in (elsewhere, second, first, replace(second, role=Role.OWNER)):
        await people.memberships.add(each)
    assert await people.memberships.of_organisation("org-1") == [first, second]
    assert await people.memberships.of_user("user-ada") == [first, elsewhere]
    assert [await people.memberships.has_owner(each) for each in ("org-1", "org-2")] == [True, False]
    assert not await people.memberships.has_owner("org-1", besides="user-ada")
    assert await people.memberships.has_owner("org-1", besides="user-bob")
    assert await people.memberships.set_role("org-1", "user-bob", Role.VIEWER)
    assert await people.memberships.find("org-1", "user-bob") == replace(second, role=Role.VIEWER)
    assert not await people.memberships.set_role("org-2", "user-bob", Role.OWNER)
    assert await people.memberships.set_role("org-1", "user-bob", Role.VIEWER, Role.MEMBER)
    assert await people.memberships.find("org-1", "user-bob") == replace(second, role=Role.VIEWER, former=Role.MEMBER)
    assert await people.memberships.remove("org-1", "user-bob")
    assert not await people.memberships.remove("org-1", "user-bob")


async def test_the_highest_role_outlives_the_membership(people: PeopleStores) -> None:
    first, again = (Membership("org-1", "user-bob", role, 1.0) for role in (Role.ADMIN, Role.VIEWER))
    await people.memberships.add(first)
    for _ in range(2):
        await people.memberships.set_role("org-1", "user-bob", Role.MEMBER, Role.ADMIN)
        await people.memberships.remove("org-1", "user-bob")
        assert await people.memberships.find("org-1", "user-bob") is None
        assert not await people.memberships.of_user("user-bob")
        assert not await people.memberships.of_organisation("org-1")
        assert not await people.memberships.set_role("org-1", "user-bob", Role.OWNER)
        await people.memberships.confirm("org-1", "user-bob", 5.0)
        for _repeated in range(2):
            await people.memberships.add(again)
        assert await people.memberships.find("org-1", "user-bob") == replace(again, former=Role.ADMIN)
    await people.memberships.remove("org-1", "user-bob")
    await people.memberships.add(replace(again, issuer="https://issuer.example"))
    found = await people.memberships.find("org-1", "user-bob")
    assert found == replace(again, issuer="https://issuer.example", former=Role.ADMIN)


async def test_memberships_from_groups_are_found_by_their_last_confirmation(people: PeopleStores) -> None:
    invited = Membership("org-1", "user-ada", Role.OWNER, 1.0)
    given = Membership("org-1", "user-bob", Role.MEMBER, 2.0, "https://issuer.example", 2.0)
    for each in (invited, given):
        await people.memberships.add(each)
    assert await people.memberships.unconfirmed(2.0) == []
    assert await people.memberships.unconfirmed(3.0) == [given]
    await people.memberships.confirm("org-1", "user-bob", 5.0)
    assert await people.memberships.find("org-1", "user-bob") == replace(given, confirmed=5.0)
    assert await people.memberships.unconfirmed(5.0) == []
    for user in ("user-ada", "user-bob"):
        assert not await people.memberships.remove("org-1", user, 5.0)
    assert await people.memberships.remove("org-1", "user-bob", 6.0)
    assert await people.memberships.of_organisation("org-1") == [invited]
