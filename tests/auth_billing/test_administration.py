"""Who may call the administration API: administrators, by their current role, and the operator's keys."""

from __future__ import annotations

import pytest

from auth_billing.access.principal import Principal
from auth_billing.access.roles import Role
from auth_billing.errors import NotPermitted
from auth_billing.people.people_records import Membership, User
from tests.fakes.administration import DictOrganisation


def caller(user: str) -> Principal:
    return Principal("key-1", "org-1", "salt", user=user)


async def with_member(role: Role) -> DictOrganisation:
    organisation = DictOrganisation()
    await organisation.users.add(User("user-1", "a@example.org", "A", 1.0, "hash"))
    await organisation.memberships.add(Membership("org-1", "user-1", role, 1.0))
    return organisation


@pytest.mark.parametrize("role", [Role.OWNER, Role.ADMIN])
async def test_an_administrator_acts_with_the_own_role(role: Role) -> None:
    actor = await (await with_member(role)).administration.actor(caller("user-1"))
    assert (actor.organisation, actor.user, actor.role) == ("org-1", "user-1", role)


@pytest.mark.parametrize("role", [Role.MEMBER, Role.VIEWER])
async def test_a_key_has_no_more_rights_than_its_users_current_role(role: Role) -> None:
    with pytest.raises(NotPermitted):
        await (await with_member(role)).administration.actor(caller("user-1"))


async def test_a_key_of_a_user_who_left_is_refused() -> None:
    with pytest.raises(NotPermitted):
        await DictOrganisation().administration.actor(caller("user-1"))


async def test_a_key_without_a_user_is_the_operators() -> None:
    assert (await DictOrganisation().administration.actor(caller(""))).role is Role.OWNER
