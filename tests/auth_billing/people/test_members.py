"""Members: permissions, the last owner, and keys that are revoked with a role."""

from __future__ import annotations

import pytest

from auth_billing.access.roles import Role
from auth_billing.errors import InvitationVoid, LastOwner, NoSuchRecord, NotPermitted, StoreUnavailable
from router.messages import KeySet
from tests.auth_billing.people.conftest import ORG, TeamFixture

ONE_PER_ROLE = {"owner": Role.OWNER, "admin": Role.ADMIN, "member": Role.MEMBER, "viewer": Role.VIEWER}


async def test_members_are_listed_with_their_roles(team: TeamFixture) -> None:
    await team.add_members(**ONE_PER_ROLE)
    assert {each.user.id: each.role for each in await team.members.all(ORG)} == ONE_PER_ROLE
    assert await team.members.all("org-2") == []
    with pytest.raises(NoSuchRecord):
        await team.members.find("org-2", "owner")


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
    team: TeamFixture, actor: str, whom: str, role: Role
) -> None:
    await team.add_members(**ONE_PER_ROLE)
    with pytest.raises(NotPermitted):
        await team.members.change_role(team.actor(actor), whom, role)
    assert (await team.members.find(ORG, whom)).role is ONE_PER_ROLE[whom]


async def test_an_administrator_changes_roles_below_owner(team: TeamFixture) -> None:
    await team.add_members(**ONE_PER_ROLE)
    assert (await team.members.change_role(team.actor("admin"), "viewer", Role.ADMIN)).role is Role.ADMIN
    await team.members.remove(team.actor("admin"), "member")
    with pytest.raises(NoSuchRecord):
        await team.members.find(ORG, "member")
    with pytest.raises(NotPermitted):
        await team.members.remove(team.actor("admin"), "owner")


async def test_keys_with_more_rights_than_the_new_role_are_revoked(team: TeamFixture) -> None:
    await team.add_members(**ONE_PER_ROLE)
    owner = team.actor("owner")
    await team.members.change_role(owner, "viewer", Role.ADMIN)
    assert team.ended_keys == []
    await team.members.change_role(owner, "viewer", Role.MEMBER)
    await team.members.change_role(owner, "member", Role.VIEWER)
    await team.members.remove(owner, "admin")
    assert team.ended_keys == [
        KeySet(organisation=ORG, user="viewer", admin_only=True),
        KeySet(organisation=ORG, user="member"),
        KeySet(organisation=ORG, user="admin"),
    ]


async def test_an_interrupted_removal_is_completed_by_the_next(team: TeamFixture) -> None:
    await team.add_members(**ONE_PER_ROLE)
    _, token = await team.invitations.invite(team.actor("admin"), Role.MEMBER)
    team.sessions.absence.failures = 1
    with pytest.raises(StoreUnavailable):
        await team.members.remove(team.actor("owner"), "admin")
    team.ended_keys.clear()
    with pytest.raises(NotPermitted):
        await team.members.remove(team.actor("member"), "admin")
    assert team.ended_keys == []
    with pytest.raises(NoSuchRecord):
        await team.members.remove(team.actor("owner"), "admin")
    assert team.ended_keys == [KeySet(organisation=ORG, user="admin")]
    with pytest.raises(InvitationVoid):
        await team.invitations.open(token)


async def test_a_request_authorised_before_its_actor_was_removed_or_demoted_changes_nothing(
    team: TeamFixture,
) -> None:
    await team.add_members(**ONE_PER_ROLE)
    admin = team.actor("admin")  # whose request has been authorised, and whose body arrives later
    await team.members.change_role(team.actor("owner"), "admin", Role.MEMBER)
    with pytest.raises(NotPermitted):
        await team.members.change_role(admin, "member", Role.ADMIN)
    await team.members.remove(team.actor("owner"), "admin")
    with pytest.raises(NotPermitted):
        await team.members.change_role(admin, "member", Role.ADMIN)
    with pytest.raises(NotPermitted):
        await team.members.remove(admin, "viewer")
    roles = {each.user.id: each.role for each in await team.members.all(ORG)}
    assert roles == {name: role for name, role in ONE_PER_ROLE.items() if name != "admin"}


async def test_what_is_no_user_is_not_removed(team: TeamFixture) -> None:
    await team.add_members(**ONE_PER_ROLE)
    with pytest.raises(NoSuchRecord):
        await team.members.remove(team.actor("owner"), "svc_acct_1")  # whose keys would end
    assert team.ended_keys == []


async def test_the_last_owner_cannot_be_removed(team: TeamFixture) -> None:
    await team.add_members(**ONE_PER_ROLE)
    owner = team.actor("owner")
    with pytest.raises(LastOwner):
        await team.members.remove(owner, "owner")
    with pytest.raises(LastOwner):
        await team.members.change_role(owner, "owner", Role.ADMIN)
    await team.members.change_role(owner, "admin", Role.OWNER)
    await team.members.remove(owner, "owner")
    with pytest.raises(LastOwner):
        await team.members.remove(team.actor("admin"), "admin")


async def test_each_member_may_leave(team: TeamFixture) -> None:
    await team.add_members(**ONE_PER_ROLE)
    await team.members.remove(team.actor("viewer"), "viewer")
    with pytest.raises(NotPermitted):
        await team.members.remove(team.actor("member"), "admin")


async def test_joining_again_keeps_the_role(team: TeamFixture) -> None:
    await team.add_members(**ONE_PER_ROLE)
    await team.members.join(ORG, "viewer", Role.OWNER, 9.0)
    assert (await team.members.find(ORG, "viewer")).role is Role.VIEWER
    with pytest.raises(LastOwner):
        await team.members.remove(team.actor("owner"), "owner")
