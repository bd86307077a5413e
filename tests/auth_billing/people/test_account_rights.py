"""Who may act on another person's account: an administrator above a member of this organisation alone."""

from __future__ import annotations

import itertools

import pytest

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import NoSuchRecord, NotPermitted
from auth_billing.people.account_rights import require_account_rights
from tests.auth_billing.people.conftest import ORG, TeamFixture


async def test_only_accounts_below_the_actors_role(team: TeamFixture) -> None:
    roles = {f"{role.value}-{number}": role for role in Role for number in (1, 2)}
    await team.add_members(**roles)
    allowed: set[tuple[Role, Role]] = set()
    for actor, user in itertools.permutations(roles, 2):
        try:
            await require_account_rights(team.memberships, team.actor(actor), user)
        except NotPermitted:
            continue
        allowed.add((roles[actor], roles[user]))
    below_admin = {(Role.ADMIN, Role.MEMBER), (Role.ADMIN, Role.VIEWER)}
    assert allowed == below_admin | {(Role.OWNER, role) for role in Role if role is not Role.OWNER}


async def test_no_account_whose_role_the_actor_lowered_first(team: TeamFixture) -> None:
    await team.add_members(owner=Role.OWNER, admin=Role.ADMIN, equal=Role.ADMIN)
    for role in (Role.MEMBER, Role.VIEWER, Role.MEMBER):
        await team.members.change_role(team.actor("admin"), "equal", role)
        with pytest.raises(NotPermitted):
            await require_account_rights(team.memberships, team.actor("admin"), "equal")
    await require_account_rights(team.memberships, team.actor("owner"), "equal")


async def test_no_account_whose_member_was_removed_and_joined_again_in_a_lower_role(team: TeamFixture) -> None:
    await team.add_members(owner=Role.OWNER, admin=Role.ADMIN, equal=Role.ADMIN)
    for role in (Role.MEMBER, Role.VIEWER):
        await team.members.remove(team.actor("admin"), "equal")
        await team.members.join(ORG, "equal", role, team.clock())
        with pytest.raises(NotPermitted):
            await require_account_rights(team.memberships, team.actor("admin"), "equal")
    await require_account_rights(team.memberships, team.actor("owner"), "equal")


async def test_no_account_that_another_organisation_relies_on(team: TeamFixture) -> None:
    await team.add_members(owner=Role.OWNER, member=Role.MEMBER)
    await team.members.join("org-2", "member", Role.VIEWER, 5.0)
    with pytest.raises(NotPermitted):
        await require_account_rights(team.memberships, team.actor("owner"), "member")
    with pytest.raises(NoSuchRecord):
        await require_account_rights(team.memberships, team.actor("owner"), "stranger")


async def test_the_role_that_counts_is_the_present_one(team: TeamFixture) -> None:
    await team.add_members(owner=Role.OWNER, admin=Role.ADMIN, member=Role.MEMBER)
    before = team.actor("admin")
    await team.members.change_role(team.actor("owner"), "admin", Role.MEMBER)
    with pytest.raises(NotPermitted):
        await require_account_rights(team.memberships, before, "member")
    await team.members.remove(team.actor("owner"), "admin")
    with pytest.raises(NotPermitted):
        await require_account_rights(team.memberships, before, "member")
    await require_account_rights(team.memberships, Actor(ORG, "", Role.OWNER), "member")  # the operator's key
