"""Gives, changes and ends memberships of organisations as the groups of an identity provider's users require.

Groups give, change and take only memberships that they gave. A membership that an invitation gave belongs to the
organisation's administrators, so no mistake at the provider removes an owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from auth_billing.access.roles import Actor, Role
from auth_billing.audit_log import Event
from auth_billing.errors import NoSuchRecord, ProviderSignInRefused
from auth_billing.people.members import Members
from auth_billing.people.oidc.configuration import GroupRole
from auth_billing.people.people_records import Membership

MAX_GROUPS = 5000

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class MembershipChange:
    """A membership that groups gave, changed or took, for the audit log."""

    organisation: str
    event: Event
    role: Role


def groups_in(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """Return the user's groups in the claim `name` of an ID token, a text or a list of texts; none if missing.

    Raises:
        ProviderSignInRefused: the provider left the claim out because there are too many groups, or it is malformed.
    """
    elsewhere = claims.get("_claim_names")  # OpenID Connect Core, section 5.6.2; Entra ID does so above 200 groups
    if name not in claims and isinstance(elsewhere, Mapping) and name in elsewhere:
        raise ProviderSignInRefused("too_many_groups", f"the provider leaves the claim {name!r} out")
    groups = claims.get(name, [])
    groups = [groups] if isinstance(groups, str) else groups
    if not isinstance(groups, list) or len(groups) > MAX_GROUPS or not all(isinstance(each, str) for each in groups):
        raise ProviderSignInRefused("sign_in_invalid", f"the claim {name!r} is no list of texts")
    return frozenset(groups)


def roles_of(groups: Iterable[str], mapping: Sequence[GroupRole]) -> dict[str, Role]:
    """Return the highest role that the groups of a user give in each organisation, by the organisation's id.

    `mapping`: the configured roles of groups. Organisations in which no group gives a role are missing.
    """
    names, roles = set(groups), dict[str, Role]()
    for each in mapping:
        if each.group in names and each.role.rank > (
            roles[each.organisation].rank if each.organisation in roles else 0
        ):
            roles[each.organisation] = each.role
    return roles


async def apply_roles(
    members: Members, user: str, wanted: Mapping[str, Role], issuer: str, now: float
) -> list[MembershipChange]:
    """Add, change and end the memberships that groups of the provider `issuer` give a user; return the changes.

    `wanted`: the roles that the groups give, by organisation id. `now`: Unix seconds, when the provider confirmed the
    groups.
    """
    stored = {each.organisation: each for each in await members.memberships.of_user(user)}
    new = [Membership(organisation, user, role, now, issuer) for organisation, role in wanted.items()]
    changes = [await _join(members, each) for each in new if each.organisation not in stored]
    followed = [each for each in stored.values() if each.issuer == issuer]
    changes += [await _follow(members, each, wanted.get(each.organisation), now) for each in followed]
    return [each for each in changes if each is not None]


async def _join(members: Members, new: Membership) -> MembershipChange | None:
    if await members.accounts.find_organisation(new.organisation) is None:
        _log.warning("group gives a role in an unknown organisation", organisation=new.organisation)
        return None
    await members.join(new.organisation, new.user, new.role, new.added, new.issuer)
    return MembershipChange(new.organisation, Event.USER_ADDED, new.role)


async def _follow(members: Members, stored: Membership, role: Role | None, now: float) -> MembershipChange | None:
    if role is None:
        return await end_membership(members, stored)
    changed = role is not stored.role
    if changed:
        await members.set_role(stored, role)
    await members.memberships.confirm(stored.organisation, stored.user, now)
    return MembershipChange(stored.organisation, Event.USER_UPDATED, role) if changed else None


async def end_unconfirmed(members: Members, since: float) -> list[tuple[str, MembershipChange]]:
    """End all memberships from groups of any issuer that were last confirmed before `since` (Unix seconds).

    The users' sessions and API keys there end too. Return a pair of user id and change for each ended membership.
    """
    return [
        (each.user, MembershipChange(each.organisation, Event.USER_DELETED, each.role))
        for each in await members.memberships.unconfirmed(since)
        if await members.remove_unconfirmed(each, since)
    ]


async def end_membership(members: Members, membership: Membership) -> MembershipChange | None:
    """End one membership that a group gave, with sessions and API keys; return the change, `None` if it had ended."""
    actor = Actor(membership.organisation, membership.user, membership.role)
    try:
        await members.remove(actor, membership.user)
    except NoSuchRecord:
        return None
    return MembershipChange(membership.organisation, Event.USER_DELETED, membership.role)
