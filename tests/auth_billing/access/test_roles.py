"""Roles: an order, and what an actor of each role may assign."""

from __future__ import annotations

import pytest

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import NotPermitted


def test_an_owner_ranks_highest_and_a_viewer_lowest() -> None:
    assert sorted(Role, key=lambda role: role.rank) == [Role.VIEWER, Role.MEMBER, Role.ADMIN, Role.OWNER]


@pytest.mark.parametrize("needed", list(Role))
@pytest.mark.parametrize("own", list(Role))
def test_a_role_includes_the_rights_of_lower_ones(own: Role, needed: Role) -> None:
    actor = Actor("org-1", "user-1", own)
    if own.rank >= needed.rank:
        actor.require(needed)
    else:
        with pytest.raises(NotPermitted, match=needed.value):
            actor.require(needed)


@pytest.mark.parametrize(
    ("own", "roles", "allowed"),
    [
        (Role.ADMIN, [Role.MEMBER, Role.VIEWER], True),
        (Role.ADMIN, [Role.ADMIN], True),
        (Role.ADMIN, [Role.MEMBER, Role.OWNER], False),
        (Role.OWNER, [Role.OWNER], True),
        (Role.MEMBER, [Role.VIEWER], False),  # assigning takes an administrator
    ],
)
def test_an_administrator_assigns_roles_up_to_the_own_one(own: Role, roles: list[Role], allowed: bool) -> None:
    actor = Actor("org-1", "user-1", own)
    if allowed:
        actor.require_over(*roles)
    else:
        with pytest.raises(NotPermitted):
            actor.require_over(*roles)


@pytest.mark.parametrize("own", Role)
def test_only_owners_limit_owners_and_administrators(own: Role) -> None:
    allowed = []
    for role in Role:
        try:
            Actor("org-1", "user-1", own).require_limits_of(role)
        except NotPermitted:
            continue
        allowed.append(role)
    below = [Role.MEMBER, Role.VIEWER] if own is Role.ADMIN else []
    assert allowed == (list(Role) if own is Role.OWNER else below)
