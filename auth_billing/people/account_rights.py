"""Checks whether an administrator may act on another person's account: reset the password or the second factor.

An administrator who resets both can sign in as the person. So the person must be a member of no other organisation,
and have a lower role than the administrator, who must not have lowered it first: a former higher role counts too, also
that of an ended membership. Other accounts are reset by mail or by the operator's command line.
"""

from __future__ import annotations

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import NoSuchRecord, NotPermitted
from auth_billing.people.members import current_actor
from auth_billing.people.people_records import MembershipStore


async def require_account_rights(memberships: MembershipStore, actor: Actor, user_id: str) -> None:
    """Check that an administrator may reset the password and the second factor of a user.

    Raises:
        NotPermitted: the actor is no administrator (any more), the user's role is or was not lower, or the user is a
            member of another organisation too.
        NoSuchRecord: the user is no member of the actor's organisation.
    """
    current = await current_actor(memberships, actor)
    current.require(Role.ADMIN)
    membership = await memberships.find(actor.organisation, user_id)
    if membership is None:
        raise NoSuchRecord(f"no member {user_id} of {actor.organisation}")
    if membership.highest_role.rank >= current.role.rank:
        raise NotPermitted("the member's role is not, or was not always, below the actor's")
    if len(await memberships.of_user(user_id)) > 1:
        raise NotPermitted("the user is a member of several organisations")
