"""Manages an organisation's members and roles, checks permissions; removal ends keys, sessions and invitations.

Removing a member also ends what the member could use later: API keys, browser sessions and pending invitations. They
are ended after the membership. Code that creates one checks the membership afterwards, so none is missed.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import LastOwner, NoSuchRecord, NotPermitted, RoleFromGroup
from auth_billing.people.invitations import Invitations
from auth_billing.people.organisation_records import OrganisationStore
from auth_billing.people.people_records import Membership, MembershipStore, User, UserStore
from auth_billing.people.session_records import SessionStore
from router.messages import KeySet


@dataclass(frozen=True)
class Member:
    """A user with the user's role in one organisation."""

    user: User
    role: Role
    added: float


async def current_actor(memberships: MembershipStore, actor: Actor) -> Actor:
    """Return the actor with the role that its user has in the organisation now, read from the store.

    The request may have been authorised seconds ago.

    Raises:
        NotPermitted: the user has left the organisation.
    """
    if not actor.user:
        return actor
    membership = await memberships.find(actor.organisation, actor.user)
    if membership is None:
        raise NotPermitted("the user has left the organisation")
    return replace(actor, role=membership.role)


@dataclass(eq=False, repr=False)
class Members:
    """Lists, adds, changes and removes the members of organisations.

    Args:
        users, memberships, accounts, sessions: the stores.
        invitations: of these, those made by or for a removed member are revoked.
        end_keys: revokes a set of API keys at every gateway (`ApiKeys.revoke_all`).
        clock: Unix seconds.
    """

    users: UserStore
    memberships: MembershipStore
    accounts: OrganisationStore
    sessions: SessionStore
    invitations: Invitations
    end_keys: Callable[[KeySet], Awaitable[object]]
    clock: Callable[[], float] = time.time

    async def all(self, organisation: str) -> list[Member]:
        """Return all members of an organisation (users with their roles), oldest membership first."""
        memberships = await self.memberships.of_organisation(organisation)
        users = {user.id: user for user in await self.users.find_all([each.user for each in memberships])}
        return [Member(users[each.user], each.role, each.added) for each in memberships if each.user in users]

    async def find(self, organisation: str, user_id: str) -> Member:
        """Return the member of an organisation who has this user id.

        Raises:
            NoSuchRecord: the organisation has no member with this id.
        """
        membership = await self._membership(organisation, user_id)
        user = await self.users.find(user_id)
        if user is None:
            raise NoSuchRecord(f"no user {user_id}")
        return Member(user, membership.role, membership.added)

    async def joined(self, organisation: str, user_id: str) -> float | None:
        """Return when a user's current membership began, in Unix seconds; `None` if the user is not a member."""
        membership = await self.memberships.find(organisation, user_id)
        return None if membership is None else membership.added

    async def join(self, organisation: str, user_id: str, role: Role, now: float, issuer: str = "") -> None:
        """Add a user to an organisation with `role` from `now` (Unix seconds); a member keeps the current role.

        `issuer`: identity provider whose groups give the membership; empty: members of the organisation do.
        """
        await self.memberships.add(Membership(organisation, user_id, role, now, issuer, now if issuer else 0.0))
        membership = await self._membership(organisation, user_id)
        if membership.role is Role.OWNER:
            await self.accounts.add_owner(organisation, user_id)

    async def change_role(self, actor: Actor, user_id: str, role: Role) -> Member:
        """Change a member's role, revoke the member's API keys with more rights than it, and return the changed member.

        Raises:
            NotPermitted: the actor may not assign the new role or take the current one.
            NoSuchRecord: the organisation has no member with this id.
            RoleFromGroup: a group of the identity provider gives the role.
            LastOwner: the member is the organisation's only owner.
        """
        membership = await self._membership(actor.organisation, user_id)
        (await current_actor(self.memberships, actor)).require_over(role, membership.role)
        if membership.issuer:
            raise RoleFromGroup(f"{membership.issuer} gives the role")
        await self.set_role(membership, role)
        return await self.find(actor.organisation, user_id)

    async def set_role(self, membership: Membership, role: Role) -> None:
        """Change a member's role without checking an actor's rights; API keys with more rights than it are revoked.

        Raises:
            LastOwner: the member is the organisation's only owner.
        """
        organisation, user_id = membership.organisation, membership.user
        if role is not Role.OWNER:
            await self._give_up_ownership(membership)
        await self.memberships.set_role(organisation, user_id, role, membership.highest_role)
        if role is Role.OWNER:  # after the role, so that each counted owner has the role
            await self.accounts.add_owner(organisation, user_id)
        if role.rank < Role.ADMIN.rank:
            admin_only = role is not Role.VIEWER
            await self.end_keys(KeySet(organisation=organisation, user=user_id, admin_only=admin_only))

    async def remove(self, actor: Actor, user_id: str) -> Member:
        """Remove a member from the actor's organisation; return the former member.

        The user's sessions, keys and invitations there end. Each member may remove themselves.

        Raises:
            NotPermitted: the actor may not remove this member.
            NoSuchRecord: there is no such member. What an interrupted removal has left is ended nevertheless.
            LastOwner: the member is the organisation's only owner.
        """
        organisation, user = actor.organisation, await self.users.find(user_id)
        membership = await self.memberships.find(organisation, user_id)
        if actor.user != user_id:
            current = await current_actor(self.memberships, actor)
            current.require_over(*([] if membership is None else [membership.role]))
        if membership is not None:
            await self._give_up_ownership(membership)
            await self.memberships.remove(organisation, user_id)
        if user is not None:
            await self._end_access(organisation, user)
        if user is None or membership is None:
            raise NoSuchRecord(f"no member {user_id} of {organisation}")
        return Member(user, membership.role, membership.added)

    async def remove_unconfirmed(self, membership: Membership, since: float) -> bool:
        """End a membership that groups gave, unless the provider confirmed it after `since` (Unix seconds).

        The user's sessions, keys and invitations there end too. Return whether it was ended.
        """
        organisation, user = membership.organisation, await self.users.find(membership.user)
        if not await self.memberships.remove(organisation, membership.user, since):
            return False
        if user is not None:
            await self._end_access(organisation, user)
        return True

    async def _end_access(self, organisation: str, user: User) -> None:
        await self.end_keys(KeySet(organisation=organisation, user=user.id))
        await self.sessions.revoke_all(organisation, user.id, self.clock())
        await self.invitations.revoke_of(organisation, user)

    async def _membership(self, organisation: str, user_id: str) -> Membership:
        membership = await self.memberships.find(organisation, user_id)
        if membership is None:
            raise NoSuchRecord(f"no member {user_id} of {organisation}")
        return membership

    async def _give_up_ownership(self, membership: Membership) -> None:
        """Remove a member from the owners before the role changes: of two owners who remove each other, one stays."""
        if membership.role is Role.OWNER and not await self.accounts.give_up_owner(
            membership.organisation, membership.user
        ):
            raise LastOwner(f"{membership.user} is the last owner of {membership.organisation}")
