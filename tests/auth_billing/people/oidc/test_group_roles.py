"""Roles of groups: the highest counts, and groups touch only memberships that they gave."""

from __future__ import annotations

from typing import Any

import pytest

from auth_billing.access.roles import Role
from auth_billing.errors import ProviderSignInRefused
from auth_billing.people.oidc.configuration import GroupRole
from auth_billing.people.oidc.group_roles import apply_roles, end_unconfirmed, groups_in, roles_of
from auth_billing.people.people_records import Membership, User
from tests.auth_billing.people.conftest import ORG, TeamFixture

ISSUER = "https://issuer.example"


def test_the_highest_role_of_a_persons_groups_counts() -> None:
    mapping = (
        GroupRole("a", Role.ADMIN, "org-1"),
        GroupRole("b", Role.MEMBER, "org-1"),
        GroupRole("b", Role.VIEWER, "org-2"),
    )
    assert roles_of(["b", "a", "c"], mapping) == {"org-1": Role.ADMIN, "org-2": Role.VIEWER}
    assert roles_of([], mapping) == {}


@pytest.mark.parametrize(
    ("claims", "groups"),
    [({}, set()), ({"groups": "a b"}, {"a b"}), ({"groups": ["a", "b"]}, {"a", "b"}), ({"groups": []}, set())],
)
def test_groups_are_a_text_or_a_list(claims: dict[str, Any], groups: set[str]) -> None:
    assert groups_in(claims, "groups") == groups


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"groups": [1]}, "sign_in_invalid"),
        ({"groups": {"a": 1}}, "sign_in_invalid"),
        ({"groups": None}, "sign_in_invalid"),
        ({"groups": ["a"] * 5001}, "sign_in_invalid"),
        ({"_claim_names": {"groups": "src1"}}, "too_many_groups"),
    ],
)
def test_other_claims_are_refused_instead_of_read_as_no_group(claims: dict[str, Any], reason: str) -> None:
    with pytest.raises(ProviderSignInRefused) as caught:
        groups_in(claims, "groups")
    assert caught.value.reason == reason


async def test_a_membership_from_an_invitation_is_not_touched(team: TeamFixture) -> None:
    await team.add_members(ada=Role.OWNER, bob=Role.ADMIN)
    for wanted in ({}, {ORG: Role.VIEWER}):
        for user in ("ada", "bob"):
            assert await apply_roles(team.members, user, wanted, ISSUER, 5.0) == []
    assert [each.role for each in team.memberships.memberships.values()] == [Role.OWNER, Role.ADMIN]
    assert await team.accounts.give_up_owner(ORG, "ada") is False


async def test_a_membership_of_another_issuer_is_not_touched(team: TeamFixture) -> None:
    await team.add_members(ada=Role.OWNER)
    await apply_roles(team.members, "eve", {ORG: Role.MEMBER}, "https://other.example", 5.0)
    assert await apply_roles(team.members, "eve", {}, ISSUER, 6.0) == []
    assert team.memberships.memberships[ORG, "eve"].role is Role.MEMBER


async def test_a_role_in_an_unknown_organisation_is_left_out(team: TeamFixture) -> None:
    assert await apply_roles(team.members, "eve", {"org-unknown": Role.ADMIN}, ISSUER, 5.0) == []
    assert not team.memberships.memberships


async def test_a_lower_role_ends_the_keys_that_need_the_higher_one(team: TeamFixture) -> None:
    await team.add_members(ada=Role.OWNER)
    await apply_roles(team.members, "eve", {ORG: Role.ADMIN}, ISSUER, 5.0)
    await apply_roles(team.members, "eve", {ORG: Role.ADMIN}, ISSUER, 6.0)
    assert not team.ended_keys
    assert team.memberships.memberships[ORG, "eve"].confirmed == 6.0
    await apply_roles(team.members, "eve", {ORG: Role.MEMBER}, ISSUER, 7.0)
    assert [(each.user, each.admin_only) for each in team.ended_keys] == [("eve", True)]


async def test_memberships_of_every_issuer_end_when_they_are_unconfirmed(team: TeamFixture) -> None:
    await team.add_members(ada=Role.OWNER)
    for user, issuer, confirmed in (("eve", ISSUER, 5.0), ("bob", "https://other.example", 6.0), ("kim", ISSUER, 7.0)):
        await team.users.add(User(user, f"{user}@example.org", user, 1.0, ""))
        await apply_roles(team.members, user, {ORG: Role.MEMBER}, issuer, confirmed)
    assert not await end_unconfirmed(team.members, 5.0)
    assert {user for user, _change in await end_unconfirmed(team.members, 7.0)} == {"eve", "bob"}
    assert {user for _organisation, user in team.memberships.memberships} == {"ada", "kim"}
    assert {each.user for each in team.ended_keys} == {"eve", "bob"}


async def test_a_membership_that_is_confirmed_meanwhile_keeps_its_keys(
    team: TeamFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await team.add_members(ada=Role.OWNER)
    await team.users.add(User("eve", "eve@example.org", "Eve", 1.0, ""))
    await apply_roles(team.members, "eve", {ORG: Role.MEMBER}, ISSUER, 5.0)
    find_unconfirmed = team.memberships.unconfirmed

    async def then_sign_in(since: float) -> list[Membership]:
        monkeypatch.undo()
        found = await find_unconfirmed(since)
        await apply_roles(team.members, "eve", {ORG: Role.MEMBER}, ISSUER, 9.0)
        return found

    monkeypatch.setattr(team.memberships, "unconfirmed", then_sign_in)
    assert not await end_unconfirmed(team.members, 7.0)
    assert team.memberships.memberships[ORG, "eve"].confirmed == 9.0
    assert not team.ended_keys
