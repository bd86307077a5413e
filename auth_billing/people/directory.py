"""The people of an organisation: who belongs to it in which role, and who may change that.

A removed member's keys end with the membership, and his sessions because they look it up again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from auth_billing.errors import LastOwner, NoSuchRecord
from auth_billing.people.people_records import Membership, MembershipStore, User, UserStore
from auth_billing.people.roles import Actor, Role
from auth_billing.records import AccountStore
from router.messages import KeySet


@dataclass(frozen=True)
class Member:
    """A person of an organisation."""

    user: User
    role: Role
    added: float


class People:
    """Members of organisations.

    Args:
        users, memberships, accounts: where they are.
        end_keys: ends API keys, everywhere (`ApiKeys.revoke_all`).
    """

    def __init__(
        self,
        users: UserStore,
        memberships: MembershipStore,
        accounts: AccountStore,
        end_keys: Callable[[KeySet], Awaitable[object]],
    ) -> None:
        self._end_keys = end_keys
        self._users = users
        self._memberships = memberships
        self._accounts = accounts

    async def members(self, organisation: str) -> list[Member]:
        """All members, oldest first."""
        memberships = await self._memberships.of_organisation(organisation)
        users = {user.id: user for user in await self._users.find_all([each.user for each in memberships])}
        return [Member(users[each.user], each.role, each.added) for each in memberships if each.user in users]

    async def member(self, organisation: str, user_id: str) -> Member:
        """One member.

        Raises:
            NoSuchRecord: no member of this organisation has this id.
        """
        membership = await self._membership(organisation, user_id)
        user = await self._users.find(user_id)
        if user is None:
            raise NoSuchRecord(f"no user {user_id}")
        return Member(user, membership.role, membership.added)

    async def join(self, organisation: str, user_id: str, role: Role, now: float) -> None:
        """Make a user a member; one who is a member already stays what he is."""
        await self._memberships.add(Membership(organisation, user_id, role, now))
        membership = await self._membership(organisation, user_id)
        if membership.role is Role.OWNER:
            await self._accounts.add_owner(organisation, user_id)

    async def change_role(self, actor: Actor, user_id: str, role: Role) -> Member:
        """Give a member another role. Keys of his that give more than it does end.

        Raises:
            NotPermitted: the actor may not give the new role or take the old one.
            NoSuchRecord, LastOwner
        """
        membership = await self._membership(actor.organisation, user_id)
        actor.require_over(role, membership.role)
        if role is not Role.OWNER:
            await self._give_up_ownership(membership)
        await self._memberships.set_role(actor.organisation, user_id, role)
        if role is Role.OWNER:  # after the role: whoever is counted as an owner is one
            await self._accounts.add_owner(actor.organisation, user_id)
        if role.rank < Role.ADMIN.rank:
            admin_only = role is not Role.VIEWER
            await self._end_keys(KeySet(organisation=actor.organisation, user=user_id, admin_only=admin_only))
        return await self.member(actor.organisation, user_id)

    async def remove(self, actor: Actor, user_id: str) -> None:
        """End a membership, and with it the person's sessions and keys there. Anybody may leave by himself.

        Raises:
            NotPermitted: the actor may not.
            NoSuchRecord, LastOwner
        """
        membership = await self._membership(actor.organisation, user_id)
        if actor.user != user_id:
            actor.require_over(membership.role)
        await self._give_up_ownership(membership)
        await self._memberships.remove(actor.organisation, user_id)
        await self._end_keys(KeySet(organisation=actor.organisation, user=user_id))

    async def _membership(self, organisation: str, user_id: str) -> Membership:
        membership = await self._memberships.find(organisation, user_id)
        if membership is None:
            raise NoSuchRecord(f"no member {user_id} of {organisation}")
        return membership

    async def _give_up_ownership(self, membership: Membership) -> None:
        """Before the role goes, so that of two owners who remove each other at once one stays."""
        if membership.role is Role.OWNER and not await self._accounts.give_up_owner(
            membership.organisation, membership.user
        ):
            raise LastOwner(f"{membership.user} is the last owner of {membership.organisation}")
