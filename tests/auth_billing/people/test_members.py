"""Members: permissions, the last owner, and keys that are revoked with a role."""

from __future__ import annotations

import pytest

from auth_billing.access.roles import Role
from auth_billing.errors import LastOwner, NoSuchRecord, NotPermitted
from router.messages import KeySet
from tests.auth_billing.people.conftest import ORG, PeopleFixture

ONE_PER_ROLE = {"owner": Role.OWNER, "admin": Role.ADMIN, "member": Role.MEMBER, "viewer": Role.VIEWER}


async def test_members_are_listed_with_their_roles(people: PeopleFixture) -> None:
    await people.add_members(**ONE_PER_ROLE)
    assert {each.user.id: each.role for each in await people.members.all(ORG)} == ONE_PER_ROLE
    assert await people.members.all("org-2") == []
    with pytest.raises(NoSuchRecord):
        await people.members.find("org-2", "owner")


@pytest.mark.parametrize(
    ("actor", "whom", "role"),
    [
        ("viewer", "viewer", Role.OWNER),
        ("member", "member", Role.ADMIN),
        ("member", "viewer", Role.MEMBER),
        ("admin", "admin", Role.OWNER),
        ("admin", "member", Role.OWNER),
        ("admin", "owner", Role.MEMBER),
    ],
)
async def test_an_actor_cannot_assign_or_remove_a_higher_role(
    people: PeopleFixture, actor: str, whom: str, role: Role
) -> None:
    await people.add_members(**ONE_PER_ROLE)
    with pytest.raises(NotPermitted):
        await people.members.change_role(people.actor(actor), whom, role)
    assert (await people.members.find(ORG, whom)).role is ONE_PER_ROLE[whom]


async def test_an_administrator_changes_roles_below_owner(people: PeopleFixture) -> None:
    await people.add_members(**ONE_PER_ROLE)
    assert (await people.members.change_role(people.actor("admin"), "viewer", Role.ADMIN)).role is Role.ADMIN
    await people.members.remove(people.actor("admin"), "member")
    with pytest.raises(NoSuchRecord):
        await people.members.find(ORG, "member")
    with pytest.raises(NotPermitted):
        await people.members.remove(people.actor("admin"), "owner")


async def test_keys_with_more_rights_than_the_new_role_are_revoked(people: PeopleFixture) -> None:
    await people.add_members(**ONE_PER_ROLE)
    owner = people.actor("owner")
    await people.members.change_role(owner, "viewer", Role.ADMIN)
    assert people.ended_keys == []
    await people.members.change_role(owner, "viewer", Role.MEMBER)
    await people.members.change_role(owner, "member", Role.VIEWER)
    await people.members.remove(owner, "admin")
    assert people.ended_keys == [
        KeySet(organisation=ORG, user="viewer", admin_only=True),
        KeySet(organisation=ORG, user="member"),
        KeySet(organisation=ORG, user="admin"),
    ]


async def test_the_last_owner_cannot_be_removed(people: PeopleFixture) -> None:
    await people.add_members(**ONE_PER_ROLE)
    owner = people.actor("owner")
    with pytest.raises(LastOwner):
        await people.members.remove(owner, "owner")
    with pytest.raises(LastOwner):
        await people.members.change_role(owner, "owner", Role.ADMIN)
    await people.members.change_role(owner, "admin", Role.OWNER)
    await people.members.remove(owner, "owner")
    with pytest.raises(LastOwner):
        await people.members.remove(people.actor("admin"), "admin")


async def test_each_member_may_leave(people: PeopleFixture) -> None:
    await people.add_members(**ONE_PER_ROLE)
    await people.members.remove(people.actor("viewer"), "viewer")
    with pytest.raises(NotPermitted):
        await people.members.remove(people.actor("member"), "admin")


async def test_joining_again_keeps_the_role(people: PeopleFixture) -> None:
    await people.add_members(**ONE_PER_ROLE)
    await people.members.join(ORG, "viewer", Role.OWNER, 9.0)
    assert (await people.members.find(ORG, "viewer")).role is Role.VIEWER
    with pytest.raises(LastOwner):
        await people.members.remove(people.actor("owner"), "owner")
